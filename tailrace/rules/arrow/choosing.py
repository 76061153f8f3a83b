"""Kernels that choose one of several values: CASE, IF, COALESCE, GREATEST, LEAST."""

from __future__ import annotations

import pyarrow.compute as pc

from tailrace.rules.arrow.comparing import compare
from tailrace.rules.arrow.tree import Value


def first_true(*values: Value) -> Value:
    """Arguments are condition, value, ..., default: the value of the first true condition, or the default."""
    chosen = values[-1]
    for i in range(len(values) - 3, -1, -2):
        chosen = pc.if_else(pc.coalesce(values[i], False), values[i + 1], chosen)
    return chosen


def first_valid(*values: Value) -> Value:
    return pc.coalesce(*values)


def extreme(first: Value, *others: Value, operator: str) -> Value:
    """The greatest (>) or least (<) of the values that are not NULL; of equal values the first."""
    best = first
    for other in others:
        is_better = pc.or_(pc.coalesce(compare(other, best, operator), False), pc.is_null(best))
        best = pc.if_else(is_better, other, best)
    return best


def greatest(*values: Value) -> Value:
    return extreme(*values, operator=">")


def least(*values: Value) -> Value:
    return extreme(*values, operator="<")
