"""Comparison kernels. NaN equals NaN and is larger than any number; 0.0 equals -0.0; strings compare by bytes."""

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


def compare(left: Value, right: Value, operator: str) -> Value:
    if not pa.types.is_floating(left.type):
        return _PLAIN[operator](left, right)
    if operator in ("=", "<>"):
        equal = pc.or_(pc.equal(left, right), pc.and_(pc.is_nan(left), pc.is_nan(right)))
        return equal if operator == "=" else pc.invert(equal)
    if operator in (">", ">="):
        left, right, operator = right, left, {">": "<", ">=": "<="}[operator]
    if operator == "<=":
        return pc.invert(_less(right, left))
    return _less(left, right)


def _less(left: Value, right: Value) -> Value:
    return pc.or_(pc.less(left, right), pc.and_not(pc.is_nan(right), pc.is_nan(left)))


def null_safe_equal(left: Value, right: Value) -> Value:
    """left <=> right: true for two NULLs, never NULL."""
    equal = compare(left, right, "=")
    return pc.coalesce(equal, pc.and_(pc.is_null(left), pc.is_null(right)))


def is_in(value: Value, *items: Value) -> Value:
    """value IN (items). NULL if no item equals value, and value or an item is NULL."""
    constants = [i for i in items if isinstance(i, pa.Scalar)]
    if isinstance(value, pa.Scalar) or pa.types.is_floating(value.type) or len(constants) < len(items):
        matched = compare(value, items[0], "=")
        for item in items[1:]:
            matched = pc.or_kleene(matched, compare(value, item, "="))
        return matched
    non_null = pa.array([i.as_py() for i in constants if i.is_valid], value.type)
    matched = pc.is_in(value, value_set=non_null)
    if len(non_null) < len(items):
        matched = pc.if_else(matched, matched, pa.scalar(None, pa.bool_()))
    return pc.if_else(pc.is_valid(value), matched, pa.scalar(None, pa.bool_()))
