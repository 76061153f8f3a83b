"""LATERAL subqueries: each row of FROM so far is joined with the rows that the subquery returns for it.

    FROM a, LATERAL (SELECT a.x + 1 AS y)                           computed in place: no join
    FROM a, LATERAL (SELECT count(*) FROM b WHERE b.k = a.k)        a join with one row per group (`global_totals`)
    FROM a, LATERAL (SELECT ... FROM b WHERE b.k = a.k ...)         a join with the lifted subquery (`decorrelate`)

The last two are joins by the values of the outer columns, so equal rows of `a` keep their number.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Literal

from sqlglot import exp

from tailrace.delta import column
from tailrace.errors import SqlError
from tailrace.plan.build.context import BuildQuery, Environment, Relation
from tailrace.plan.build.decorrelate import Decorrelation
from tailrace.plan.build.global_totals import Total, as_total, join_total
from tailrace.plan.build.placeholders import has_placeholder
from tailrace.plan.build.scope import Scope, wrong_aliases
from tailrace.plan.expressions import is_true, shift
from tailrace.plan.joining import filtered, joined, selected
from tailrace.plan.nodes import Filter, Generate, Join, Node, OneRow, Project, UnionAll
from tailrace.plan.outer import Outer
from tailrace.plan.sql.dialect import location
from tailrace.plan.sql.refuse import NOT_IN_SPARK, refuse_clauses, unsupported


def is_lateral_subquery(node: exp.Expr) -> bool:
    return isinstance(node, exp.Lateral) and isinstance(node.this, exp.Subquery)


def build_lateral_subquery(relation: Relation, join: exp.Join, env: Environment, build_query: BuildQuery) -> Relation:
    """FROM t [LEFT] JOIN LATERAL (SELECT ...) AS alias(columns) [ON ...]."""
    lateral, on = join.this, join.args.get("on")
    is_left = _require_kind(join)
    refuse_clauses(lateral)
    width = len(relation.node.columns)
    outer = Outer(replace(relation.scope, outer=env.outer), relation.node.columns, env.noted)
    plan = build_query(lateral.this, replace(env, outer=outer))
    names = _names(plan, lateral)
    scope = relation.scope.beside(Scope.of(plan, lateral.alias or None, names), width)
    pairs = Relation(Join(relation.node, plan, "inner", (), (), ()), replace(scope, outer=env.outer))
    condition = [] if on is None else env.condition(on, pairs, "ON")
    if any(map(has_placeholder, condition)):
        reason = "move the condition to WHERE, or into the LATERAL subquery"
        raise unsupported("a subquery in ON of JOIN LATERAL", join, reason)
    lateral_join = _LateralJoin(relation.node, plan, Decorrelation(relation.node, outer.depth, env.types, lateral.this))
    return Relation(lateral_join.left(condition) if is_left else filtered(lateral_join.inner(), condition), scope)


def _require_kind(join: exp.Join) -> bool:
    """Whether it is a LEFT JOIN; raises `Unsupported` for joins that Spark does not have with LATERAL."""
    side, kind = (join.args.get("side") or "").upper(), (join.args.get("kind") or "").upper()
    if join.args.get("using") or join.args.get("method") or side not in ("", "LEFT") or kind in ("SEMI", "ANTI"):
        construct = "JOIN LATERAL with USING, NATURAL, RIGHT, FULL, SEMI or ANTI"
        raise unsupported(construct, join, f"{NOT_IN_SPARK}; write JOIN LATERAL or LEFT JOIN LATERAL")
    return side == "LEFT"


def _names(plan: Node, lateral: exp.Lateral) -> list[str]:
    alias = lateral.args.get("alias")
    names = [c.name for c in alias.args.get("columns") or ()] if alias is not None else []
    if alias is not None and names and len(names) != len(plan.columns):
        raise SqlError(message=wrong_aliases(len(plan.columns), len(names)), **location(alias))
    return names or [c.name for c in plan.columns]


class _LateralJoin:
    """Joins `outer` with `plan`, a subquery that reads it. The result has the columns of both."""

    def __init__(self, outer: Node, plan: Node, decorrelation: Decorrelation) -> None:
        self._outer, self._plan, self._decorrelation = outer, plan, decorrelation
        self._width = len(outer.columns)

    def inner(self) -> Node:
        if _is_row_by_row(self._plan):
            return self._in_place(self._plan)
        total = as_total(self._plan)
        return self._lifted("inner", []) if total is None else self._total(total)

    def left(self, condition: Sequence[str]) -> Node:
        """`condition` is over the columns of both sides."""
        condition = [c for c in condition if not is_true(c)]
        if not condition and _is_one_row(self._plan):
            return self._in_place(self._plan)
        total = as_total(self._plan)
        if total is None or total.condition or condition:
            return self._lifted("left", condition)
        return self._total(total)

    def _in_place(self, plan: Node) -> Node:
        """The rows of `outer` with those that a subquery without FROM makes from them."""
        match plan:
            case Project(source, expressions, output):
                copied = tuple(map(column, range(self._width)))
                made = tuple(map(self._over_row, expressions))
                return Project(self._in_place(source), copied + made, self._outer.columns + output)
            case Filter(source, condition):
                return Filter(self._in_place(source), self._over_row(condition))
            case Generate(source, generator):
                return replace(plan, input=self._in_place(source), generator=self._over_row(generator))
            case UnionAll(branches):
                return UnionAll(tuple(map(self._in_place, branches)))
        return self._outer  # OneRow

    def _over_row(self, text: str) -> str:
        """An expression of the subquery over the columns of `outer`, followed by those of the subquery."""
        return self._decorrelation.above(shift(text, self._width))

    def _total(self, total: Total) -> Node:
        node, above = join_total(self._outer, total, self._decorrelation, drop_empty=False)
        copied = tuple(map(column, range(self._width)))
        columns = self._outer.columns + self._plan.columns
        return Project(filtered(node, above.condition), copied + above.values, columns)

    def _lifted(self, kind: Literal["inner", "left"], condition: Sequence[str]) -> Node:
        lifted = self._decorrelation.lift(self._plan)
        condition = [*condition, *lifted.conditions(self._width, lifted.width)]
        if kind == "inner":
            # The rewrite `order_joins` chooses the join order and the keys, because it sees all tables.
            both = filtered(Join(self._outer, lifted.node, "inner", (), (), ()), condition)
        else:
            both = joined(self._outer, lifted.node, kind, condition, self._decorrelation.types)
        return selected(both, range(self._width + lifted.width))


def _is_row_by_row(plan: Node) -> bool:
    """Whether a subquery without FROM computes its rows from one row: by expressions, conditions, generators, UNION."""
    match plan:
        case OneRow():
            return True
        case Project(source) | Filter(source) | Generate(source):
            return _is_row_by_row(source)
        case UnionAll(branches):
            return all(map(_is_row_by_row, branches))
    return False


def _is_one_row(plan: Node) -> bool:
    """Whether a subquery without FROM makes exactly one row."""
    return isinstance(plan, OneRow) or (isinstance(plan, Project) and _is_one_row(plan.input))
