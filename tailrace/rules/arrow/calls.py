"""Functions, by the names Spark has for them: each from typed arguments to a node."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

import pyarrow as pa
import pyarrow.compute as pc

from tailrace.rules.arrow import choosing, dates, decimals, numbers, operators, strings
from tailrace.rules.arrow.casts import cast
from tailrace.rules.arrow.coercion import FLOATS, decimal, is_decimal, normal, parts
from tailrace.rules.arrow.tree import NULL, Constant, Node, NotMine, call
from tailrace.types import INTEGERS

_PARTS = {
    "year": "year", "month": "month", "quarter": "quarter", "day": "day", "dayofmonth": "day",
    "dayofweek": "dayofweek", "dayofyear": "dayofyear", "weekday": "weekday", "weekofyear": "week",
}  # fmt: skip
_FIELDS = {
    "year": "year", "month": "month", "quarter": "quarter", "day": "day", "week": "week",
    "dayofweek": "dayofweek", "dow": "dayofweek", "doy": "dayofyear",
}  # fmt: skip
_TIMES = ("hour", "minute", "second")
_HALF_UP = "half_towards_infinity"
_LIKE = {k.__name__: k for k in (strings.equals, strings.starts, strings.ends, strings.holds, strings.matches)}


def function(name: str, arguments: list[Node]) -> Node:
    """The call `name(arguments)`."""
    found = _function(name.lower(), arguments)
    return replace(found, literal=False) if isinstance(found, Constant) else found


def _function(name: str, arguments: list[Node]) -> Node:
    if name in _PARTS and len(arguments) == 1:
        return date_part(_PARTS[name], arguments[0])
    if name in _TIMES and len(arguments) == 1:
        return time_part(name, arguments[0])
    if name in _CASTS and len(arguments) == 1:
        return cast(arguments[0], normal(name))
    rule = _FUNCTIONS.get((name, len(arguments))) or _FUNCTIONS.get((name, None))
    if rule is None:
        raise NotMine(f"{name}()")
    return rule(*arguments)


def extracted(field: str, source: Node) -> Node:
    """EXTRACT(field FROM source)."""
    field = field.lower()
    if field in ("hour", "minute"):
        return time_part(field, source)
    if field not in _FIELDS:
        raise NotMine(f"EXTRACT({field})")
    return date_part(_FIELDS[field], source)


def date_part(name: str, node: Node) -> Node:
    return call("int", dates.part, _date(node), options=(name,))


def time_part(name: str, node: Node) -> Node:
    if node.type != "timestamp":
        raise NotMine(f"{name} of {node.type}")
    return call("int", dates.time_part, node, options=(name,))


def _date(node: Node) -> Node:
    if node.type not in ("date", "timestamp"):
        raise NotMine(f"{node.type} as a date")
    return cast(node, "date")


def shifted(node: Node, amount: int, unit: str) -> Node:
    """A date or timestamp plus `amount` years, months, days, ..."""
    unit = unit.lower().removesuffix("s")
    if unit in ("year", "month"):
        months = amount * (12 if unit == "year" else 1)
        kernel = {"date": dates.plus_months, "timestamp": dates.timestamp_plus_months}.get(node.type)
        if kernel is None or abs(months) > 100_000:
            raise NotMine(f"{node.type} and an interval")
        return call(node.type, kernel, node, options=(months,))
    if node.type == "date" and unit == "day" and abs(amount) <= 1_000_000:
        return call("date", dates.date_plus, node, options=(pa.scalar(amount, pa.int32()),))
    micros = {"day": dates.DAY, "hour": 3_600_000_000, "minute": 60_000_000, "second": 1_000_000}.get(unit)
    if node.type != "timestamp" or micros is None or abs(amount * micros) > 1 << 60:
        raise NotMine(f"{node.type} and an interval of a {unit}")
    return call("timestamp", dates.timestamp_plus, node, options=(amount * micros,))


def substring(text: Node, position: Node, length: Node | None) -> Node:
    _require("string", text)
    first = _integer(position)
    return call("string", strings.slice_of, text, options=(first, None if length is None else _integer(length)))


def trim(text: Node, side: str) -> Node:
    _require("string", text)
    return call("string", strings.trimmed, text, options=(side,))


def like(text: Node, pattern: Node, escape: str) -> Node:
    _require("string", text)
    name, sought = strings.like(_text(pattern), escape)
    return call("boolean", _LIKE[name], text, options=(sought,))


def concat(*arguments: Node) -> Node:
    _require("string", *arguments)
    return call("string", strings.joined, *arguments)


def plus_days(date: Node, days: Node) -> Node:
    return call("date", dates.date_plus, _date(date), _days(days))


def minus_days(date: Node, days: Node) -> Node:
    return call("date", dates.date_minus, _date(date), _days(days))


def _days(node: Node) -> Node:
    _require(("tinyint", "smallint", "int"), node)
    return node


def _require(types: str | tuple[str, ...], *nodes: Node) -> None:
    for node in nodes:
        if node.type not in ((types,) if isinstance(types, str) else types):
            raise NotMine(f"{node.type} where {types} is wanted")


def _text(node: Node) -> str:
    if node.type != "string" or not isinstance(node, Constant) or node.python is None:
        raise NotMine("a text that is not constant")
    return str(node.python)


def _integer(node: Node) -> int:
    if node.type != "int" or not isinstance(node, Constant) or node.python is None:
        raise NotMine("a number that is not constant")
    return int(node.python)


def _left(text: Node, length: Node) -> Node:
    _require("string", text)
    return call("string", strings.slice_of, text, options=(1, _integer(length)))


def _right(text: Node, length: Node) -> Node:
    _require("string", text)
    count = _integer(length)
    return call("string", strings.slice_of, text, options=(1, 0) if count <= 0 else (-count, None))


def _sought(kernel: Callable[..., object]) -> Callable[[Node, Node], Node]:
    def rule(text: Node, part: Node) -> Node:
        _require("string", text)
        return call("boolean", kernel, text, options=(_text(part),))

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


def _whole(mode: str) -> Callable[[Node], Node]:
    """floor or ceil: of integers and floats a bigint, of a decimal one without digits after the point."""

    def rule(node: Node) -> Node:
        if is_decimal(node.type):
            p, s = parts(node.type)
            if s == 0:
                return node
            kind = decimal(min(p - s + 1, 38), 0)
            return call(kind, decimals.rounded, node, options=(*parts(kind), mode))
        if node.type in INTEGERS:
            return cast(node, "bigint")
        _require(FLOATS, node)
        return call("bigint", numbers.floor if mode == "down" else numbers.ceil, cast(node, "double"))

    return rule


def _round(node: Node, to: Node | None = None) -> Node:
    places = 0 if to is None else _integer(to)
    if is_decimal(node.type) and places >= 0:
        p, s = parts(node.type)
        scale = min(s, places)
        kind = decimal(min(38, p - s + 1 + scale), scale)
        if scale == s:
            return cast(node, kind)
        return call(kind, decimals.rounded, node, options=(*parts(kind), _HALF_UP))
    if node.type in INTEGERS and places >= 0:
        return node
    raise NotMine(f"round of {node.type}")


def _sign(node: Node) -> Node:
    _require((*INTEGERS, *FLOATS), node)
    return call("double", numbers.sign, cast(node, "double"))


def _sqrt(node: Node) -> Node:
    _require((*INTEGERS, *FLOATS), node)
    return call("double", numbers.root, cast(node, "double"))


def _isnan(node: Node) -> Node:
    _require(FLOATS, node)
    return operators.both(operators.negated(operators.is_null(node)), call("boolean", pc.is_nan, node))


def _coalesce(*nodes: Node) -> Node:
    common = operators.common_type(list(nodes))
    return call(common, choosing.first_valid, *(cast(n, common) for n in nodes))


def _extreme(kernel: Callable[..., object]) -> Callable[..., Node]:
    def rule(*nodes: Node) -> Node:
        if len(nodes) < 2:
            raise NotMine("one value alone")
        common = operators.common_type(list(nodes))
        return call(common, kernel, *(cast(n, common) for n in nodes))

    return rule


def _nullif(left: Node, right: Node) -> Node:
    return operators.choose([(operators.compare("=", left, right), NULL)], left)


def _datediff(end: Node, start: Node) -> Node:
    return call("int", dates.days_between, _date(end), _date(start))


def _last_day(node: Node) -> Node:
    return call("date", dates.last_day, _date(node))


def _add_months(node: Node, months: Node) -> Node:
    return shifted(_date(node), _integer(months), "month")


_CASTS = ("tinyint", "smallint", "int", "bigint", "float", "double", "string", "date", "boolean")
_FUNCTIONS: dict[tuple[str, int | None], Callable[..., Node]] = {
    ("if", 3): lambda test, yes, no: operators.choose([(test, yes)], no),
    ("coalesce", None): _coalesce,
    ("nvl", 2): _coalesce,
    ("ifnull", 2): _coalesce,
    ("nvl2", 3): lambda test, yes, no: operators.choose([(operators.negated(operators.is_null(test)), yes)], no),
    ("nullif", 2): _nullif,
    ("greatest", None): _extreme(choosing.greatest),
    ("least", None): _extreme(choosing.least),
    ("isnull", 1): operators.is_null,
    ("isnotnull", 1): lambda node: operators.negated(operators.is_null(node)),
    ("isnan", 1): _isnan,
    ("abs", 1): _abs,
    ("negative", 1): operators.negative,
    ("mod", 2): lambda left, right: operators.arithmetic("%", left, right),
    ("floor", 1): _whole("down"),
    ("ceil", 1): _whole("up"),
    ("ceiling", 1): _whole("up"),
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
    ("startswith", 2): _sought(strings.starts),
    ("endswith", 2): _sought(strings.ends),
    ("contains", 2): _sought(strings.holds),
    ("date_add", 2): plus_days,
    ("dateadd", 2): plus_days,
    ("date_sub", 2): minus_days,
    ("datediff", 2): _datediff,
    ("date_diff", 2): _datediff,
    ("last_day", 1): _last_day,
    ("add_months", 2): _add_months,
}
