"""Scalar subqueries: each becomes a join with a relation of at most one row per row of the outer query.

    (SELECT e(count(x)) FROM q WHERE k = outer.k)
        =  e(coalesce(n, 0)) over  outer LEFT JOIN (SELECT k, count(x) AS n FROM q GROUP BY k)

Expressions over the aggregates are computed above the join, where empty groups have a value too.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

from sqlglot import exp

from tailrace.delta import column
from tailrace.errors import SqlError
from tailrace.plan.build.decorrelate import Decorrelation, Lifted
from tailrace.plan.build.emptiness import is_null_if_empty, value_or_empty
from tailrace.plan.dependencies import has_at_most_one_row
from tailrace.plan.expressions import conjoin, conjuncts, parse_expr, position_of, substitute
from tailrace.plan.facts import has_one_row
from tailrace.plan.joining import joined, selected
from tailrace.plan.nodes import Aggregate, Call, Filter, Join, JoinKind, Node, Project
from tailrace.plan.outer import outer_refs, reads_outer, replace_outer_refs
from tailrace.plan.sql.dialect import location
from tailrace.plan.sql.refuse import unsupported
from tailrace.types import is_scalar

# Operators that are NULL if any operand is.
_STRICT = (
    exp.Add, exp.Sub, exp.Mul, exp.Div, exp.IntDiv, exp.Mod, exp.Neg, exp.Paren, exp.Cast, exp.Not,
    exp.EQ, exp.NEQ, exp.GT, exp.GTE, exp.LT, exp.LTE,
)  # fmt: skip


def is_strict(node: exp.Expr) -> bool:
    """Whether the whole expression is NULL if `node`, a part of it, is NULL."""
    while node.parent is not None:
        node = node.parent
        if not isinstance(node, _STRICT):
            return False
    return True


def join_scalar(left: Node, plan: Node, outer: Decorrelation, *, drop_nulls: bool) -> tuple[Node, str]:
    """`left` with more columns, and the value of the subquery as an expression over them.

    `drop_nulls`: the caller drops rows whose value is NULL, so the join may drop them.
    """
    if len(plan.columns) != 1:
        message = f"a scalar subquery must have one column, but this one has {len(plan.columns)}"
        raise SqlError(message=message, **location(outer.origin))
    if not reads_outer(plan, outer.depth) and has_one_row(plan):
        return Join(left, plan, "inner", (), (), ()), column(len(left.columns))
    total = _as_total(plan)
    if total is not None:
        return _join_total(left, total, outer, drop_nulls=drop_nulls)
    lifted = outer.lift(plan)
    if not has_at_most_one_row(lifted.node, lifted.correlated, outer.types):
        advice = "select max(...), add LIMIT 1, or compare all columns of a key with ="
        reason = f"make sure that it returns one: {advice}"
        raise unsupported("a scalar subquery that may return several rows", outer.origin, reason)
    lifted = _with_key(lifted)
    kind: JoinKind = "inner" if drop_nulls or has_one_row(lifted.node) else "left"
    condition = lifted.conditions(len(left.columns), lifted.width)
    return joined(left, lifted.node, kind, condition, outer.types), column(len(left.columns))


def _with_key(lifted: Lifted) -> Lifted:
    """Groups by the correlation columns if they are not the plan's key yet, so that the join keeps the key of `left`.

    The value of a group is MAX over its only row.
    """
    kind = lifted.node.columns[0].type
    if (lifted.node.key is not None and set(lifted.node.key) <= set(lifted.correlated)) or not is_scalar(kind):
        return lifted
    value = Call("max", (0,), distinct=False, sql="MAX(_0)", type=kind)
    count = len(lifted.correlations)
    grouped = Aggregate(lifted.node, tuple(lifted.correlated), (value,))
    return replace(lifted, node=selected(grouped, [count, *range(count)]))


@dataclass(frozen=True)
class _Total:
    """SELECT value FROM ... HAVING condition, without GROUP BY; both are over the columns of `aggregate`."""

    aggregate: Aggregate
    value: str
    condition: list[str]


def _as_total(plan: Node) -> _Total | None:
    """The plan as a global aggregate with projections and filters above it; None if it is anything else."""
    value, condition = column(0), list[str]()
    while isinstance(plan, Project | Filter):
        if isinstance(plan, Project):
            value = substitute(value, plan.expressions)
            condition = [substitute(c, plan.expressions) for c in condition]
        else:
            condition += conjuncts(plan.condition)
        plan = plan.input
    if not isinstance(plan, Aggregate) or plan.groups:
        return None
    return _Total(plan, value, condition)


def _join_total(left: Node, total: _Total, outer: Decorrelation, *, drop_nulls: bool) -> tuple[Node, str]:
    lifted = outer.aggregate(total.aggregate)
    start, calls = len(left.columns), total.aggregate.calls
    results = [column(start + i) for i in range(len(calls))]
    if not lifted.correlations:
        node: Node = Join(left, lifted.node, "inner", (), (), ())
    else:
        kind: JoinKind = "inner" if drop_nulls and _is_null_if_empty(total, outer) else "left"
        condition = lifted.conditions(start, lifted.width)
        node = joined(left, lifted.node, kind, condition, outer.types)
        results = [value_or_empty(c, r, outer.origin) for c, r in zip(calls, results, strict=True)]
    value, *condition = (_above(text, results, outer) for text in (total.value, *total.condition))
    return node, f"CASE WHEN {conjoin(condition)} THEN {value} END" if condition else value


def _above(text: str, results: list[str], outer: Decorrelation) -> str:
    """An expression over the aggregate's columns, rewritten over the columns of the join."""
    inside = substitute(text, results)
    return replace_outer_refs(inside, outer.depth, {p: column(p) for p in outer_refs(inside, outer.depth)})


def _is_null_if_empty(total: _Total, outer: Decorrelation) -> bool:
    if not all(is_null_if_empty(c, outer.origin) for c in total.aggregate.calls):
        return False
    tree = parse_expr(total.value).copy()
    return any(position_of(c) is not None and is_strict(c) for c in tree.find_all(exp.Column))
