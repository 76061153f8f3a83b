"""Comparisons. NaN equals NaN and is larger than any other number; 0.0 equals -0.0; strings go by their bytes."""

from __future__ import annotations

import pyarrow as pa
import pyarrow.compute as pc

from tailrace.rules.arrow.tree import Value

_PLAIN = {
    "=": pc.equal,
    "<>": pc.not_equal,
    "<": pc.less,
    "<=": pc.less_equal,
    ">": pc.greater,
    ">=": pc.greater_equal,
}


def compared(left: Value, right: Value, operator: str) -> Value:
    if not pa.types.is_floating(left.type):
        return _PLAIN[operator](left, right)
    if operator in ("=", "<>"):
        same = pc.or_(pc.equal(left, right), pc.and_(pc.is_nan(left), pc.is_nan(right)))
        return same if operator == "=" else pc.invert(same)
    if operator in (">", ">="):
        left, right, operator = right, left, {">": "<", ">=": "<="}[operator]
    if operator == "<=":
        return pc.invert(_less(right, left))
    return _less(left, right)


def _less(left: Value, right: Value) -> Value:
    return pc.or_(pc.less(left, right), pc.and_not(pc.is_nan(right), pc.is_nan(left)))


def same(left: Value, right: Value) -> Value:
    """left <=> right: true for two NULLs, never NULL."""
    equal = compared(left, right, "=")
    return pc.coalesce(equal, pc.and_(pc.is_null(left), pc.is_null(right)))


def among(value: Value, *items: Value) -> Value:
    """value IN (items): NULL if it is not found but value or an item is NULL."""
    fixed = [i for i in items if isinstance(i, pa.Scalar)]
    if isinstance(value, pa.Scalar) or pa.types.is_floating(value.type) or len(fixed) < len(items):
        found = compared(value, items[0], "=")
        for item in items[1:]:
            found = pc.or_kleene(found, compared(value, item, "="))
        return found
    known = pa.array([i.as_py() for i in fixed if i.is_valid], value.type)
    found = pc.is_in(value, value_set=known)
    if len(known) < len(items):
        found = pc.if_else(found, found, pa.scalar(None, pa.bool_()))
    return pc.if_else(pc.is_valid(value), found, pa.scalar(None, pa.bool_()))
