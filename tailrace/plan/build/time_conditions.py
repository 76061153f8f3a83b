"""Admits the time in conditions: where a conjunct compares it with a value of the row (`plan/temporal.py`).

In the plan, such a conjunct is an ordinary condition of a Filter or a Join until the plan is lowered.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from sqlglot import exp

from tailrace.plan.build.placeholders import placeholders
from tailrace.plan.sql.functions import ADMITTED
from tailrace.plan.sql.refuse import unsupported
from tailrace.plan.sql.times import is_time, reads_time
from tailrace.plan.temporal import NotTemporal, comparisons, is_temporal, row_sides
from tailrace.plan.typing import Types
from tailrace.types import Column

_TIMES = ("date", "timestamp", "timestamp_ntz")


def admit_time(tree: exp.Expr) -> exp.Expr:
    """The condition with its calls of `now()` and its kin admitted; raises `Unsupported` for other uses of the time."""
    if not reads_time(tree):
        return tree
    tree = tree.copy()
    for conjunct in _conjuncts(tree):
        if not reads_time(conjunct):
            continue
        if placeholders(conjunct):
            reason = "join the subquery in FROM, and compare its column with the time"
            raise unsupported("a comparison of a subquery with the time", conjunct, reason)
        try:
            list(comparisons(conjunct))
        except NotTemporal as error:
            raise unsupported("this condition on the time", conjunct, str(error)) from None
        for node in conjunct.walk():
            if is_time(node):
                node.meta[ADMITTED] = True
    return tree


def require_times(columns: Sequence[Column], condition: Sequence[str], origin: exp.Expr, types: Types) -> None:
    """Raises `Unsupported` unless all values that the conjuncts compare with the time are dates or timestamps."""
    sides = [side for conjunct in condition if is_temporal(conjunct) for side in row_sides(conjunct)]
    for kind in types.of(columns, sides, [origin] * len(sides)) if sides else ():
        if kind not in _TIMES:
            reason = "compare the time with a DATE or TIMESTAMP; write CAST(... AS TIMESTAMP)"
            raise unsupported(f"a comparison of the time with a value of type {kind}", origin, reason)


def _conjuncts(tree: exp.Expr) -> Iterator[exp.Expr]:
    tree = tree.unnest()
    if isinstance(tree, exp.And):
        yield from _conjuncts(tree.this)
        yield from _conjuncts(tree.expression)
    else:
        yield tree
