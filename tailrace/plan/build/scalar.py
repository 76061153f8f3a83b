"""Scalar subqueries: a join with a relation that has at most one row for each row of the outer query.

    (SELECT e(count(x)) FROM q WHERE k = outer.k)
        =  e(coalesce(n, 0)) over  outer LEFT JOIN (SELECT k, count(x) AS n FROM q GROUP BY k)

What is computed of the aggregates is computed above the join, where also groups without rows have answers.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

from sqlglot import exp

from tailrace.delta import column
from tailrace.errors import SqlError
from tailrace.plan.build.decorrelate import Decorrelation, Lifted
from tailrace.plan.sql.dialect import place
from tailrace.plan.build.emptiness import is_null_over_nothing, or_empty
from tailrace.plan.expressions import conjoin, conjuncts, parse_expr, position_of, substitute
from tailrace.plan.facts import at_most_one, one_row
from tailrace.plan.joining import joined, selected
from tailrace.plan.nodes import Aggregate, Call, Filter, Join, JoinKind, Node, Project
from tailrace.plan.outer import outer_refs, reads_outer, with_outer
from tailrace.plan.sql.refuse import unsupported
from tailrace.types import is_scalar

# Operators whose value is NULL as soon as one operand is.
STRICT = (
    exp.Add, exp.Sub, exp.Mul, exp.Div, exp.IntDiv, exp.Mod, exp.Neg, exp.Paren, exp.Cast, exp.Not,
    exp.EQ, exp.NEQ, exp.GT, exp.GTE, exp.LT, exp.LTE,
)  # fmt: skip


def is_strict(node: exp.Expr) -> bool:
    """Whether an expression is NULL when this part of it is."""
    while node.parent is not None:
        node = node.parent
        if not isinstance(node, STRICT):
            return False
    return True


def scalar(left: Node, plan: Node, outer: Decorrelation, *, needed: bool) -> tuple[Node, str]:
    """`left` with more columns, and the value of the subquery as an expression over them.

    `needed`: rows for which it is NULL are going to be dropped, and may be dropped here.
    """
    if len(plan.columns) != 1:
        message = f"a scalar subquery has one column, not {len(plan.columns)}"
        raise SqlError(message=message, **place(outer.origin))
    if not reads_outer(plan, outer.depth) and one_row(plan):
        return Join(left, plan, "inner", (), (), ()), column(len(left.columns))
    total = _total(plan)
    if total is not None:
        return _aggregated(left, total, outer, needed=needed)
    found = outer.lift(plan)
    if not at_most_one(found.node, found.tied, outer.types):
        reason = "nothing says that it has one row at most; take max(...), or LIMIT 1, or compare a whole key by ="
        raise unsupported("a scalar subquery of several rows", outer.origin, reason)
    found = _keyed(found)
    kind: JoinKind = "inner" if needed or one_row(found.node) else "left"
    condition = found.conditions(len(left.columns), found.width)
    return joined(left, found.node, kind, condition, outer.types), column(len(left.columns))


def _keyed(found: Lifted) -> Lifted:
    """At most one row for each value of the ties, and a plan that shows it: rows of the join keep their key."""
    kind = found.node.columns[0].type
    if (found.node.key is not None and set(found.node.key) <= set(found.tied)) or not is_scalar(kind):
        return found
    value = Call("max", (0,), distinct=False, sql="MAX(_0)", type=kind)
    count = len(found.ties)
    grouped = Aggregate(found.node, tuple(found.tied), (value,))
    return replace(found, node=selected(grouped, [count, *range(count)]))


@dataclass(frozen=True)
class _Total:
    """SELECT value FROM (an aggregate without GROUP BY) HAVING condition."""

    aggregate: Aggregate
    value: str
    condition: list[str]


def _total(plan: Node) -> _Total | None:
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


def _aggregated(left: Node, total: _Total, outer: Decorrelation, *, needed: bool) -> tuple[Node, str]:
    found = outer.aggregate(total.aggregate)
    start, calls = len(left.columns), total.aggregate.calls
    answers = [column(start + i) for i in range(len(calls))]
    if not found.ties:
        node: Node = Join(left, found.node, "inner", (), (), ())
    else:
        kind: JoinKind = "inner" if needed and _is_null_over_nothing(total, outer) else "left"
        condition = found.conditions(start, found.width)
        node = joined(left, found.node, kind, condition, outer.types)
        answers = [or_empty(c, a, outer.origin) for c, a in zip(calls, answers, strict=True)]
    value, *condition = (_above(text, answers, outer) for text in (total.value, *total.condition))
    return node, f"CASE WHEN {conjoin(condition)} THEN {value} END" if condition else value


def _above(text: str, answers: list[str], outer: Decorrelation) -> str:
    inside = substitute(text, answers)
    return with_outer(inside, outer.depth, {p: column(p) for p in outer_refs(inside, outer.depth)})


def _is_null_over_nothing(total: _Total, outer: Decorrelation) -> bool:
    if not all(is_null_over_nothing(c, outer.origin) for c in total.aggregate.calls):
        return False
    tree = parse_expr(total.value).copy()
    return any(position_of(c) is not None and is_strict(c) for c in tree.find_all(exp.Column))
