"""CAST with ANSI mode off: integers wrap, floats are truncated, a decimal with too many digits becomes NULL."""

from __future__ import annotations

import re
from datetime import UTC, date, datetime

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from tailrace.rules.arrow import dates, decimals, numbers
from tailrace.rules.arrow.coercion import FLOATS, decimal_parts, is_decimal, is_supported
from tailrace.rules.arrow.tree import VOID, Constant, Node, NotCompiled, Value, call, constant
from tailrace.types import INTEGERS, arrow

_BITS = dict(zip(INTEGERS, (8, 16, 32, 64), strict=True))
_PLAIN_SCALE = 6  # Spark may write a decimal with a larger scale in scientific notation, such as 1E-7
_EXACT_FLOAT = 1 << 24  # a float represents all integers up to this one exactly
_DATE = re.compile(r"\d{4}-\d\d-\d\d", re.ASCII)
_TIMESTAMP = re.compile(r"\d{4}-\d\d-\d\d( \d\d:\d\d:\d\d(\.\d{1,6})?)?", re.ASCII)


def cast(node: Node, to: str) -> Node:
    """CAST(node AS to)."""
    if node.type == to:
        return node
    if not is_supported(to):
        raise NotCompiled(f"CAST to {to}")
    if node.type == VOID:
        return constant(to, None)
    if is_decimal(node.type):
        return _from_decimal(node, to)
    if node.type in INTEGERS:
        return _from_integer(node, to)
    if node.type in FLOATS:
        return _from_float(node, to)
    return _from_other(node, to)


def _from_integer(node: Node, to: str) -> Node:
    if to == "float" and node.type in ("int", "bigint") and not _fits_float(node):
        # If a cast to double follows, Spark may optimise the cast to float away and keep digits that a float loses.
        raise NotCompiled("an integer that a float may not represent exactly")
    if to in INTEGERS or to in FLOATS or to == "string":
        return call(to, cast_unchecked, node, options=(arrow(to),))
    if is_decimal(to):
        return call(to, integer_to_decimal, node, options=decimal_parts(to))
    if to == "boolean":
        return call(to, is_nonzero, node)
    raise NotCompiled(f"CAST from {node.type} to {to}")


def _fits_float(node: Node) -> bool:
    return isinstance(node, Constant) and abs(node.python_value or 0) <= _EXACT_FLOAT


def _from_decimal(node: Node, to: str) -> Node:
    if is_decimal(to):
        return call(to, decimals.rescale, node, options=decimal_parts(to))
    if to == "double":
        return call(to, decimals.to_double, node)
    if to in INTEGERS:
        return call(to, decimals.to_integer, node, options=(_BITS[to],))
    if to == "string" and decimal_parts(node.type)[1] <= _PLAIN_SCALE:
        return call(to, cast_unchecked, node, options=(arrow(to),))
    raise NotCompiled(f"CAST from {node.type} to {to}")


def _from_float(node: Node, to: str) -> Node:
    if to in FLOATS:
        return call(to, cast_unchecked, node, options=(arrow(to),))
    if to in INTEGERS:
        return call(to, numbers.float_to_integer, node, options=(_BITS[to],))
    if to == "boolean":
        return call(to, is_nonzero, node)
    raise NotCompiled(f"CAST from {node.type} to {to}")


def _from_other(node: Node, to: str) -> Node:
    match node.type, to:
        case "boolean", ("tinyint" | "smallint" | "int" | "bigint" | "float" | "double" | "string"):
            return call(to, cast_unchecked, node, options=(arrow(to),))
        case "date", "timestamp":
            return call(to, dates.to_timestamp, node)
        case "timestamp", "date":
            return call(to, dates.to_date, node)
        case "date", "string":
            return call(to, date_to_string, node)
        case "string", ("date" | "timestamp") if isinstance(node, Constant):
            return _parse_time(node.python_value, to)
    raise NotCompiled(f"CAST from {node.type} to {to}")


def _parse_time(text: str | None, to: str) -> Constant:
    """Parses a date or timestamp written in full. Spark accepts more formats; those are not compiled."""
    if text is None:
        return constant(to, None)
    try:
        if to == "date" and _DATE.fullmatch(text):
            return constant(to, date.fromisoformat(text))
        if to == "timestamp" and _TIMESTAMP.fullmatch(text):
            form = "%Y-%m-%d" if len(text) == 10 else "%Y-%m-%d %H:%M:%S" + (".%f" if "." in text else "")
            return constant(to, datetime.strptime(text, form).replace(tzinfo=UTC))
    except ValueError:
        pass
    raise NotCompiled(f"{text!r} as {to}")


def cast_unchecked(value: Value, to: pa.DataType) -> Value:
    """Arrow's unsafe cast: integers keep their low bits."""
    return value.cast(to, safe=False)


def integer_to_decimal(value: Value, precision: int, scale: int) -> Value:
    return decimals.rescale(value.cast(pa.int64()).cast(pa.decimal128(19, 0)), precision, scale)


def is_nonzero(value: Value) -> Value:
    return pc.not_equal(value, pa.scalar(0, value.type))


def date_to_string(value: Value) -> Value:
    """yyyy-MM-dd. Like Java, writes years outside 0 to 9999 with a sign."""
    days = value.cast(pa.int32()).fill_null(0).to_numpy().astype(np.int64).view("M8[D]")
    texts = np.datetime_as_string(days).tolist()
    years = days.astype("M8[Y]").astype(np.int64) + 1970
    for row in np.flatnonzero((years < 0) | (years > 9999)).tolist():
        year = int(years[row])
        texts[row] = f"{'-' if year < 0 else '+'}{abs(year):04d}{texts[row][-6:]}"
    return pc.if_else(value.is_valid(), pa.array(texts, pa.string()), pa.scalar(None, pa.string()))
