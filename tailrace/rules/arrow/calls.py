"""Compiles calls of Spark SQL functions: from typed arguments to a node."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

import pyarrow as pa
import pyarrow.compute as pc

from tailrace.rules.arrow import choosing, dates, decimals, numbers, operators, strings
from tailrace.rules.arrow.casts import cast
from tailrace.rules.arrow.coercion import FLOATS, decimal_parts, decimal_type, is_decimal, normalise_type
from tailrace.rules.arrow.tree import NULL, Constant, Node, NotCompiled, call
from tailrace.types import INTEGERS

_DATE_FUNCTIONS = {
    "year": "year", "month": "month", "quarter": "quarter", "day": "day", "dayofmonth": "day",
    "dayofweek": "dayofweek", "dayofyear": "dayofyear", "weekday": "weekday", "weekofyear": "week",
}  # fmt: skip
_EXTRACT_FIELDS = {
    "year": "year", "month": "month", "quarter": "quarter", "day": "day", "week": "week",
    "dayofweek": "dayofweek", "dow": "dayofweek", "doy": "dayofyear",
}  # fmt: skip
_TIME_FUNCTIONS = ("hour", "minute", "second")
_HALF_UP = "half_towards_infinity"


def call_function(name: str, arguments: list[Node]) -> Node:
    """Compiles `name(arguments)`."""
    node = _call_function(name.lower(), arguments)
    return replace(node, literal=False) if isinstance(node, Constant) else node


def _call_function(name: str, arguments: list[Node]) -> Node:
    if name in _DATE_FUNCTIONS and len(arguments) == 1:
        return date_part(_DATE_FUNCTIONS[name], arguments[0])
    if name in _TIME_FUNCTIONS and len(arguments) == 1:
        return time_part(name, arguments[0])
    if name in _CASTS and len(arguments) == 1:
        return cast(arguments[0], normalise_type(name))
    rule = _FUNCTIONS.get((name, len(arguments))) or _FUNCTIONS.get((name, None))
    if rule is None:
        raise NotCompiled(f"{name}()")
    return rule(*arguments)


def extract(field: str, source: Node) -> Node:
    """EXTRACT(field FROM source)."""
    field = field.lower()
    if field in ("hour", "minute"):
        return time_part(field, source)
    if field not in _EXTRACT_FIELDS:
        raise NotCompiled(f"EXTRACT({field})")
    return date_part(_EXTRACT_FIELDS[field], source)


def date_part(name: str, node: Node) -> Node:
    return call("int", dates.date_part, _as_date(node), options=(name,))


def time_part(name: str, node: Node) -> Node:
    if node.type != "timestamp":
        raise NotCompiled(f"{name} of {node.type}")
    return call("int", dates.time_part, node, options=(name,))


def _as_date(node: Node) -> Node:
    if node.type not in ("date", "timestamp"):
        raise NotCompiled(f"{node.type} as a date")
    return cast(node, "date")


def add_interval(node: Node, amount: int, unit: str) -> Node:
    """A date or timestamp plus an interval of `amount` years, months, days, ..."""
    unit = unit.lower().removesuffix("s")
    if unit in ("year", "month"):
        months = amount * (12 if unit == "year" else 1)
        kernel = {"date": dates.add_months, "timestamp": dates.add_months_to_timestamp}.get(node.type)
        if kernel is None or abs(months) > 100_000:
            raise NotCompiled(f"{node.type} and an interval")
        return call(node.type, kernel, node, options=(months,))
    if node.type == "date" and unit == "day" and abs(amount) <= 1_000_000:
        return call("date", dates.add_days, node, options=(pa.scalar(amount, pa.int32()),))
    micros = {"day": dates.DAY, "hour": 3_600_000_000, "minute": 60_000_000, "second": 1_000_000}.get(unit)
    if node.type != "timestamp" or micros is None or abs(amount * micros) > 1 << 60:
        raise NotCompiled(f"{node.type} and an interval of a {unit}")
    return call("timestamp", dates.add_micros, node, options=(amount * micros,))


def substring(text: Node, position: Node, length: Node | None) -> Node:
    _require("string", text)
    count = None if length is None else _constant_integer(length)
    return call("string", strings.substring, text, options=(_constant_integer(position), count))


def trim(text: Node, side: str) -> Node:
    _require("string", text)
    return call("string", strings.trim, text, options=(side,))


def like(text: Node, pattern: Node, escape: str) -> Node:
    _require("string", text)
    kernel, sought = strings.plan_like(_constant_text(pattern), escape)
    return call("boolean", kernel, text, options=(sought,))


def concat(*arguments: Node) -> Node:
    _require("string", *arguments)
    return call("string", strings.concat, *arguments)


def add_days(date: Node, days: Node) -> Node:
    return call("date", dates.add_days, _as_date(date), _require_days(days))


def subtract_days(date: Node, days: Node) -> Node:
    return call("date", dates.subtract_days, _as_date(date), _require_days(days))


def _require_days(node: Node) -> Node:
    _require(("tinyint", "smallint", "int"), node)
    return node


def _require(types: str | tuple[str, ...], *nodes: Node) -> None:
    for node in nodes:
        if node.type not in ((types,) if isinstance(types, str) else types):
            raise NotCompiled(f"{node.type} where {types} is expected")


def _constant_text(node: Node) -> str:
    if node.type != "string" or not isinstance(node, Constant) or node.python_value is None:
        raise NotCompiled("a non-constant text argument")
    return str(node.python_value)


def _constant_integer(node: Node) -> int:
    if node.type != "int" or not isinstance(node, Constant) or node.python_value is None:
        raise NotCompiled("a non-constant integer argument")
    return int(node.python_value)


def _left(text: Node, length: Node) -> Node:
    _require("string", text)
    return call("string", strings.substring, text, options=(1, _constant_integer(length)))


def _right(text: Node, length: Node) -> Node:
    _require("string", text)
    count = _constant_integer(length)
    return call("string", strings.substring, text, options=(1, 0) if count <= 0 else (-count, None))


def _text_test(kernel: Callable[..., object]) -> Callable[[Node, Node], Node]:
    """A rule for startswith, endswith or contains with a constant second argument."""

    def rule(text: Node, part: Node) -> Node:
        _require("string", text)
        return call("boolean", kernel, text, options=(_constant_text(part),))

    return rule


def _length(node: Node) -> Node:
    _require(("string", "binary"), node)
    return call("int", strings.length if node.type == "string" else strings.byte_length, node)


def _byte_length(node: Node) -> Node:
    _require(("string", "binary"), node)
    return call("int", strings.byte_length, node)


def _abs(node: Node) -> Node:
    operators.require_unrounded(node)
    return call(node.type, pc.abs, node)


def _floor_or_ceil(mode: str) -> Callable[[Node], Node]:
    """A rule for floor or ceil. The result of an integer or float is a bigint, that of a decimal has scale 0."""

    def rule(node: Node) -> Node:
        if is_decimal(node.type):
            p, s = decimal_parts(node.type)
            if s == 0:
                return node
            kind = decimal_type(min(p - s + 1, 38), 0)
            return call(kind, decimals.round_to, node, options=(*decimal_parts(kind), mode))
        if node.type in INTEGERS:
            return cast(node, "bigint")
        _require(FLOATS, node)
        return call("bigint", numbers.floor if mode == "down" else numbers.ceil, cast(node, "double"))

    return rule


def _round(node: Node, to: Node | None = None) -> Node:
    places = 0 if to is None else _constant_integer(to)
    if is_decimal(node.type) and places >= 0:
        p, s = decimal_parts(node.type)
        scale = min(s, places)
        kind = decimal_type(min(38, p - s + 1 + scale), scale)
        if scale == s:
            return cast(node, kind)
        return call(kind, decimals.round_to, node, options=(*decimal_parts(kind), _HALF_UP))
    if node.type in INTEGERS and places >= 0:
        return node
    raise NotCompiled(f"round of {node.type}")


def _sign(node: Node) -> Node:
    _require((*INTEGERS, *FLOATS), node)
    return call("double", numbers.sign, cast(node, "double"))


def _sqrt(node: Node) -> Node:
    _require((*INTEGERS, *FLOATS), node)
    return call("double", numbers.sqrt, cast(node, "double"))


def _isnan(node: Node) -> Node:
    _require(FLOATS, node)
    return operators.logical_and(operators.logical_not(operators.is_null(node)), call("boolean", pc.is_nan, node))


def _coalesce(*nodes: Node) -> Node:
    common = operators.common_type(list(nodes))
    return call(common, choosing.first_valid, *(cast(n, common) for n in nodes))


def _extreme(kernel: Callable[..., object]) -> Callable[..., Node]:
    def rule(*nodes: Node) -> Node:
        if len(nodes) < 2:
            raise NotCompiled("greatest or least of a single value")
        common = operators.common_type(list(nodes))
        return call(common, kernel, *(cast(n, common) for n in nodes))

    return rule


def _nullif(left: Node, right: Node) -> Node:
    return operators.choose([(operators.compare("=", left, right), NULL)], left)


def _datediff(end: Node, start: Node) -> Node:
    return call("int", dates.days_between, _as_date(end), _as_date(start))


def _last_day(node: Node) -> Node:
    return call("date", dates.last_day, _as_date(node))


def _add_months(node: Node, months: Node) -> Node:
    return add_interval(_as_date(node), _constant_integer(months), "month")


def _unix_micros(node: Node) -> Node:
    _require("timestamp", node)
    return call("bigint", dates.unix_micros, node)


def _timestamp_micros(node: Node) -> Node:
    _require("bigint", node)
    return call("timestamp", dates.timestamp_micros, node)


def _pmod(left: Node, right: Node) -> Node:
    """pmod(bigint, a positive constant)."""
    if not (left.type == "bigint" and isinstance(right, Constant) and right.type in ("int", "bigint")):
        raise NotCompiled("pmod of other than a bigint and a constant")
    if right.python_value is None or not 0 < int(right.python_value) <= 1 << 60:
        raise NotCompiled("pmod by this constant")
    return call("bigint", numbers.positive_remainder, left, options=(int(right.python_value),))


_CASTS = ("tinyint", "smallint", "int", "bigint", "float", "double", "string", "date", "boolean")
_FUNCTIONS: dict[tuple[str, int | None], Callable[..., Node]] = {
    ("coalesce", None): _coalesce,
    ("nvl", 2): _coalesce,
    ("ifnull", 2): _coalesce,
    ("nvl2", 3): lambda test, yes, no: operators.choose([(operators.logical_not(operators.is_null(test)), yes)], no),
    ("nullif", 2): _nullif,
    ("greatest", None): _extreme(choosing.greatest),
    ("least", None): _extreme(choosing.least),
    ("isnull", 1): operators.is_null,
    ("isnotnull", 1): lambda node: operators.logical_not(operators.is_null(node)),
    ("isnan", 1): _isnan,
    ("abs", 1): _abs,
    ("negative", 1): operators.negate,
    ("mod", 2): lambda left, right: operators.arithmetic("%", left, right),
    ("floor", 1): _floor_or_ceil("down"),
    ("ceil", 1): _floor_or_ceil("up"),
    ("ceiling", 1): _floor_or_ceil("up"),
    ("round", 1): _round,
    ("round", 2): _round,
    ("sign", 1): _sign,
    ("signum", 1): _sign,
    ("sqrt", 1): _sqrt,
    ("length", 1): _length,
    ("len", 1): _length,
    ("char_length", 1): _length,
    ("character_length", 1): _length,
    ("octet_length", 1): _byte_length,
    ("concat", None): concat,
    ("left", 2): _left,
    ("right", 2): _right,
    ("ltrim", 1): lambda text: trim(text, "LEADING"),
    ("rtrim", 1): lambda text: trim(text, "TRAILING"),
    ("btrim", 1): lambda text: trim(text, "BOTH"),
    ("startswith", 2): _text_test(strings.starts_with),
    ("endswith", 2): _text_test(strings.ends_with),
    ("contains", 2): _text_test(strings.contains),
    ("date_add", 2): add_days,
    ("dateadd", 2): add_days,
    ("date_sub", 2): subtract_days,
    ("datediff", 2): _datediff,
    ("date_diff", 2): _datediff,
    ("last_day", 1): _last_day,
    ("unix_micros", 1): _unix_micros,
    ("timestamp_micros", 1): _timestamp_micros,
    ("pmod", 2): _pmod,
    ("add_months", 2): _add_months,
}
