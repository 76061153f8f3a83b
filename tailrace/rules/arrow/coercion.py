"""Spark's type coercion with ANSI mode off: the types to which operands are cast, and the types of results."""

from __future__ import annotations

from functools import reduce

from tailrace.rules.arrow.tree import VOID, NotCompiled
from tailrace.types import ALIASES, INTEGERS, SCALARS
from tailrace.types import decimal_parts as parse_decimal

FLOATS = ("float", "double")
_PRECEDENCE = (*INTEGERS, *FLOATS)
_INTEGER_DIGITS = {"tinyint": 3, "smallint": 5, "int": 10, "bigint": 20}
MAX_PRECISION = 38
MIN_SCALE = 6  # a result with too many digits keeps at least this scale


def normalise_type(text: str) -> str:
    """The type name as Spark prints it."""
    text = text.strip() if "struct" in text else text.strip().lower()
    text = ALIASES.get(text, text)
    if text == "decimal":
        return "decimal(10,0)"
    parts = parse_decimal(text)
    return f"decimal({parts[0]},{parts[1]})" if parts else text


def is_supported(text: str) -> bool:
    return text in SCALARS or is_decimal(text)


def is_decimal(text: str) -> bool:
    return parse_decimal(text) is not None


def is_numeric(text: str) -> bool:
    return text in _PRECEDENCE or is_decimal(text)


def decimal_parts(text: str) -> tuple[int, int]:
    """The precision and scale of a decimal type."""
    parts = parse_decimal(text)
    if parts is None:
        raise NotCompiled(f"{text} is not a decimal type")
    return parts


def decimal_type(precision: int, scale: int) -> str:
    if not 1 <= precision <= MAX_PRECISION or not 0 <= scale <= precision:
        raise NotCompiled(f"decimal({precision},{scale})")
    return f"decimal({precision},{scale})"


def as_decimal_type(text: str) -> str:
    """The decimal type that holds every value of an integer or decimal type."""
    return decimal_type(_INTEGER_DIGITS[text], 0) if text in _INTEGER_DIGITS else text


def adjust_precision(precision: int, scale: int) -> str:
    """The result type, limited to 38 digits: reduces the scale, down to 6 if necessary."""
    if precision <= MAX_PRECISION:
        return decimal_type(precision, scale)
    whole = precision - scale
    return decimal_type(MAX_PRECISION, max(MAX_PRECISION - whole, min(scale, MIN_SCALE)))


def exact_precision(operator: str, left: tuple[int, int], right: tuple[int, int]) -> tuple[int, int]:
    """The precision and scale that hold every result of an operation on decimals (for `/`, as SQL defines them)."""
    (p1, s1), (p2, s2) = left, right
    if operator in "+-":
        scale = max(s1, s2)
        return max(p1 - s1, p2 - s2) + scale + 1, scale
    if operator == "*":
        return p1 + p2 + 1, s1 + s2
    if operator == "/":
        scale = max(MIN_SCALE, s1 + p2 + 1)
        return p1 - s1 + s2 + scale, scale
    scale = max(s1, s2)
    return min(p1 - s1, p2 - s2) + scale, scale


def tightest_common_type(left: str, right: str) -> str | None:
    """The type to which both can be cast without losing digits, or None."""
    if left == right or right == VOID:
        return left
    if left == VOID:
        return right
    if left in _PRECEDENCE and right in _PRECEDENCE:
        return max(left, right, key=_PRECEDENCE.index)
    if {left, right} == {"date", "timestamp"}:
        return "timestamp"
    return None


def wider_type(left: str, right: str) -> str:
    """The type of `CASE … THEN left ELSE right END`."""
    common = tightest_common_type(left, right)
    if common is not None:
        return common
    if not (is_numeric(left) and is_numeric(right)):
        raise NotCompiled(f"no common type of {left} and {right}")
    if left in FLOATS or right in FLOATS:
        return "double"
    (p1, s1), (p2, s2) = decimal_parts(as_decimal_type(left)), decimal_parts(as_decimal_type(right))
    scale = max(s1, s2)
    return decimal_type(max(p1 - s1, p2 - s2) + scale, scale)


def widest_type(types: list[str]) -> str:
    return reduce(wider_type, types)
