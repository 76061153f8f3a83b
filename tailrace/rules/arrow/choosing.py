"""One of several values: CASE, IF, COALESCE, GREATEST, LEAST."""

from __future__ import annotations

import pyarrow.compute as pc

from tailrace.rules.arrow.comparing import compared
from tailrace.rules.arrow.tree import Value


def first_true(*values: Value) -> Value:
    """The value after the first condition that is true, else the last: condition, value, ..., value."""
    chosen = values[-1]
    for place in range(len(values) - 3, -1, -2):
        chosen = pc.if_else(pc.coalesce(values[place], False), values[place + 1], chosen)
    return chosen


def first_valid(*values: Value) -> Value:
    return pc.coalesce(*values)


def extreme(first: Value, *others: Value, operator: str) -> Value:
    """The greatest (>) or least (<) of the values that are not NULL; of equal ones the first."""
    for other in others:
        better = pc.or_(pc.coalesce(compared(other, first, operator), False), pc.is_null(first))
        first = pc.if_else(better, other, first)
    return first


def greatest(*values: Value) -> Value:
    return extreme(*values, operator=">")


def least(*values: Value) -> Value:
    return extreme(*values, operator="<")
