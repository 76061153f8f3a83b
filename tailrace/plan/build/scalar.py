"""Scalar subqueries: each becomes a join with a relation of at most one row per row of the outer query.

an aggregate without GROUP BY       `global_totals`
at most one row, which is proven    a join (`plan/dependencies.py` finds the proof)
any other                           a join with groups that are checked while the view is maintained (`single_row`)
"""

from __future__ import annotations

from dataclasses import replace

from sqlglot import exp

from tailrace.delta import column
from tailrace.errors import SqlError
from tailrace.plan.build.decorrelate import Decorrelation, Lifted
from tailrace.plan.build.emptiness import is_null_if_empty
from tailrace.plan.build.global_totals import Total, as_total, join_total
from tailrace.plan.build.single_row import with_check
from tailrace.plan.dependencies import has_at_most_one_row
from tailrace.plan.expressions import conjoin, parse_expr, position_of
from tailrace.plan.facts import has_one_row
from tailrace.plan.joining import joined, selected
from tailrace.plan.nodes import Aggregate, Call, Join, JoinKind, Node
from tailrace.plan.outer import reads_outer
from tailrace.plan.sql.dialect import location
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
    total = as_total(plan)
    if total is not None:
        return _join_total(left, total, outer, drop_nulls=drop_nulls)
    lifted = outer.lift(plan)
    if has_at_most_one_row(lifted.node, lifted.correlated, outer.types):
        lifted = _with_key(lifted)
    else:
        lifted = with_check(lifted, outer)
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


def _join_total(left: Node, total: Total, outer: Decorrelation, *, drop_nulls: bool) -> tuple[Node, str]:
    drop_empty = drop_nulls and _is_null_if_empty(total, outer)
    node, above = join_total(left, total, outer, drop_empty=drop_empty)
    (value,) = above.values
    return node, f"CASE WHEN {conjoin(above.condition)} THEN {value} END" if above.condition else value


def _is_null_if_empty(total: Total, outer: Decorrelation) -> bool:
    if not all(is_null_if_empty(c, outer.origin) for c in total.aggregate.calls):
        return False
    tree = parse_expr(total.values[0]).copy()
    return any(position_of(c) is not None and is_strict(c) for c in tree.find_all(exp.Column))
