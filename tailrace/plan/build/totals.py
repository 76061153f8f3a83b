"""Aggregates without GROUP BY in correlated subqueries: one row for each row of the outer query.

    (SELECT e(count(x)) FROM q WHERE k = outer.k)
        =  e(coalesce(n, 0)) over  outer LEFT JOIN (SELECT k, count(x) AS n FROM q GROUP BY k)

Expressions over the aggregates are computed above the join, where empty groups have a value too.
"""

from __future__ import annotations

from dataclasses import dataclass

from tailrace.delta import column
from tailrace.plan.build.decorrelate import Decorrelation
from tailrace.plan.build.emptiness import value_or_empty
from tailrace.plan.expressions import conjuncts, substitute
from tailrace.plan.joining import joined
from tailrace.plan.nodes import Aggregate, Filter, Join, JoinKind, Node, Project


@dataclass(frozen=True)
class Total:
    """SELECT values FROM ... HAVING condition, without GROUP BY; both are over the columns of `aggregate`."""

    aggregate: Aggregate
    values: tuple[str, ...]
    condition: tuple[str, ...]


def as_total(plan: Node) -> Total | None:
    """The plan as a global aggregate with projections and filters above it; None if it is anything else."""
    values, condition = [column(i) for i in range(len(plan.columns))], list[str]()
    while isinstance(plan, Project | Filter):
        if isinstance(plan, Project):
            values = [substitute(v, plan.expressions) for v in values]
            condition = [substitute(c, plan.expressions) for c in condition]
        else:
            condition += conjuncts(plan.condition)
        plan = plan.input
    if not isinstance(plan, Aggregate) or plan.groups:
        return None
    return Total(plan, tuple(values), tuple(condition))


def join_total(left: Node, total: Total, outer: Decorrelation, *, drop_empty: bool) -> tuple[Node, Total]:
    """`left` with more columns, and the total with its values and condition over the columns of that join.

    `drop_empty`: the join may drop the rows of `left` whose group is empty.
    """
    lifted = outer.aggregate(total.aggregate)
    start, calls = len(left.columns), total.aggregate.calls
    results = [column(start + i) for i in range(len(calls))]
    if not lifted.correlations:
        node: Node = Join(left, lifted.node, "inner", (), (), ())
    else:
        kind: JoinKind = "inner" if drop_empty else "left"
        condition = lifted.conditions(start, lifted.width)
        node = joined(left, lifted.node, kind, condition, outer.types)
        results = [value_or_empty(c, r, outer.origin) for c, r in zip(calls, results, strict=True)]
    values, conditions = (
        tuple(outer.above(substitute(text, results)) for text in texts) for texts in (total.values, total.condition)
    )
    return node, Total(total.aggregate, values, conditions)
