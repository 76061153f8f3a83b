"""Spark's types of operands and results, as its analyser decides them with ANSI mode off."""

from __future__ import annotations

from functools import reduce

from tailrace.rules.arrow.tree import VOID, NotMine
from tailrace.types import ALIASES, INTEGERS, SCALARS, decimal_parts

FLOATS = ("float", "double")
_PRECEDENCE = (*INTEGERS, *FLOATS)
_INTEGER_DIGITS = {"tinyint": 3, "smallint": 5, "int": 10, "bigint": 20}
MAX_PRECISION = 38
MIN_SCALE = 6  # digits after the point that are kept when a result has too many digits


def normal(text: str) -> str:
    """The type as Spark prints it."""
    text = text.strip() if "struct" in text else text.strip().lower()
    text = ALIASES.get(text, text)
    if text == "decimal":
        return "decimal(10,0)"
    digits = decimal_parts(text)
    return f"decimal({digits[0]},{digits[1]})" if digits else text


def known(text: str) -> bool:
    return text in SCALARS or is_decimal(text)


def is_decimal(text: str) -> bool:
    return decimal_parts(text) is not None


def is_numeric(text: str) -> bool:
    return text in _PRECEDENCE or is_decimal(text)


def parts(text: str) -> tuple[int, int]:
    """Precision and scale of a decimal type."""
    digits = decimal_parts(text)
    if digits is None:
        raise NotMine(f"{text} is no decimal")
    return digits


def decimal(precision: int, scale: int) -> str:
    if not 1 <= precision <= MAX_PRECISION or not 0 <= scale <= precision:
        raise NotMine(f"decimal({precision},{scale})")
    return f"decimal({precision},{scale})"


def as_decimal(text: str) -> str:
    """The decimal type that holds every value of an integer or decimal type."""
    return decimal(_INTEGER_DIGITS[text], 0) if text in _INTEGER_DIGITS else text


def adjusted(precision: int, scale: int) -> str:
    """A result type of at most 38 digits: digits after the point give way, down to six."""
    if precision <= MAX_PRECISION:
        return decimal(precision, scale)
    whole = precision - scale
    return decimal(MAX_PRECISION, max(MAX_PRECISION - whole, min(scale, MIN_SCALE)))


def natural(operator: str, left: tuple[int, int], right: tuple[int, int]) -> tuple[int, int]:
    """Precision and scale that hold every result of an operation on decimals (for `/`: as SQL defines it)."""
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


def tightest(left: str, right: str) -> str | None:
    """The type both become without losing digits, or None."""
    if left == right or right == VOID:
        return left
    if left == VOID:
        return right
    if left in _PRECEDENCE and right in _PRECEDENCE:
        return max(left, right, key=_PRECEDENCE.index)
    if {left, right} == {"date", "timestamp"}:
        return "timestamp"
    return None


def wider(left: str, right: str) -> str:
    """The type of `CASE … THEN left ELSE right END`."""
    found = tightest(left, right)
    if found is not None:
        return found
    if not (is_numeric(left) and is_numeric(right)):
        raise NotMine(f"a common type of {left} and {right}")
    if left in FLOATS or right in FLOATS:
        return "double"
    (p1, s1), (p2, s2) = parts(as_decimal(left)), parts(as_decimal(right))
    scale = max(s1, s2)
    return decimal(max(p1 - s1, p2 - s2) + scale, scale)


def widest(types: list[str]) -> str:
    return reduce(wider, types)
