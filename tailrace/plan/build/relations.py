"""Plans FROM: tables, views, subqueries, VALUES, table functions, and joins of these."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from sqlglot import exp

from tailrace.delta import column
from tailrace.errors import SqlError
from tailrace.plan.build.context import BuildQuery, Environment, Relation
from tailrace.plan.build.generators import (
    ONE_ROW,
    build_lateral_join,
    build_lateral_view,
    build_table_function,
    is_generator,
)
from tailrace.plan.build.lateral import build_lateral_subquery, is_lateral_subquery
from tailrace.plan.build.pivot import apply_pivot
from tailrace.plan.build.placeholders import has_placeholder
from tailrace.plan.build.scope import Entry, Scope, wrong_aliases
from tailrace.plan.build.subqueries import join_on_subqueries
from tailrace.plan.build.values import inline_table
from tailrace.plan.joining import filtered, joined, renamed
from tailrace.plan.nodes import Join, JoinKind, Node, Project
from tailrace.plan.sql import functions
from tailrace.plan.sql.dialect import location
from tailrace.plan.sql.refuse import NOT_IN_SPARK, refuse_clauses, unknown, unsupported, unsupported_relation
from tailrace.types import Column

_JOIN_KINDS: dict[tuple[str, str], JoinKind] = {
    ("", ""): "inner",
    ("", "INNER"): "inner",
    ("", "CROSS"): "inner",
    ("LEFT", ""): "left",
    ("LEFT", "OUTER"): "left",
    ("RIGHT", ""): "right",
    ("RIGHT", "OUTER"): "right",
    ("FULL", ""): "full",
    ("FULL", "OUTER"): "full",
    ("LEFT", "SEMI"): "semi",
    ("", "SEMI"): "semi",
    ("LEFT", "ANTI"): "anti",
    ("", "ANTI"): "anti",
}


def build_from(select: exp.Select, env: Environment, build_query: BuildQuery) -> Relation:
    """The relation of a FROM clause with its joins and lateral views; one empty row without FROM."""
    source = select.args.get("from_")
    if source is None:
        return replace(ONE_ROW, scope=replace(ONE_ROW.scope, outer=env.outer))
    relation = _apply_joins(_build_item(source.this, env, build_query), select, env, build_query)
    for lateral in select.args.get("laterals") or ():
        relation = build_lateral_view(relation, lateral, env)
    return replace(relation, scope=replace(relation.scope, outer=env.outer))


def _apply_joins(relation: Relation, owner: exp.Expr, env: Environment, build_query: BuildQuery) -> Relation:
    for join in owner.args.get("joins") or ():
        if join.this.args.get("pivots"):
            reason = "it is unclear whether it applies to the table or to the join; put the intended one in a subquery"
            raise unsupported("PIVOT of a joined table", join, reason)
        if isinstance(join.this, exp.Lateral) and is_generator(join.this.this):
            relation = build_lateral_join(relation, join, env)
        elif is_lateral_subquery(join.this):
            relation = build_lateral_subquery(relation, join, env, build_query)
        else:
            relation = _join_relations(relation, _build_item(join.this, env, build_query), join, env)
        relation = _apply_pivots(relation, join, env)
    return relation


def _apply_pivots(relation: Relation, owner: exp.Expr, env: Environment) -> Relation:
    for pivot in owner.args.get("pivots") or ():
        relation = apply_pivot(relation, pivot, env)
    return relation


def _build_item(node: exp.Expr, env: Environment, build_query: BuildQuery) -> Relation:
    """One item of FROM, including the joins nested in it."""
    refuse_clauses(node)
    if isinstance(node, exp.Table) and isinstance(node.this, exp.Identifier):
        if node.args.get("db"):
            reason = "a store is one database; remove the part before the dot"
            raise unsupported("a qualified name", node, reason)
        relation = _apply_pivots(_with_alias(env.lookup(node), node, node.name), node, env)
        return _apply_joins(relation, node, env, build_query)
    if isinstance(node, exp.Subquery):
        return _build_subquery(node, env, build_query)
    if is_lateral_subquery(node):  # the first item of FROM: there is nothing to the left of it
        return _with_alias(build_query(node.this, env), node, None)
    if isinstance(node, exp.Values):
        return _apply_pivots(_with_alias(inline_table(node, env), node, None), node, env)
    if isinstance(node, exp.Table | exp.Lateral) and (is_generator(node.this) or functions.name(node.this) == "range"):
        return _apply_pivots(build_table_function(node, env), node, env)
    raise unsupported_relation(node)


def _build_subquery(node: exp.Subquery, env: Environment, build_query: BuildQuery) -> Relation:
    inner = node.this
    if isinstance(inner, exp.Table) or (isinstance(inner, exp.Subquery) and inner.alias):
        # A join in parentheses: its tables stay visible unless the parentheses have an alias.
        relation = _apply_joins(_build_item(inner, env, build_query), node, env, build_query)
        if not node.alias:
            return _apply_pivots(relation, node, env)
        visible = relation.scope.star()
        projected = Project(
            relation.node,
            tuple(column(e.position) for e in visible),
            tuple(Column(e.name, relation.node.columns[e.position].type) for e in visible),
        )
        return _apply_pivots(_with_alias(projected, node, None), node, env)
    relation = _with_alias(build_query(inner if not node.args.get("with_") else node, env), node, None)
    return _apply_joins(_apply_pivots(relation, node, env), node, env, build_query)


def _with_alias(source: Node, node: exp.Expr, default: str | None) -> Relation:
    alias = node.args.get("alias")
    names = [c.name for c in alias.args.get("columns") or ()] if alias is not None else []
    if alias is not None and names:
        if len(names) != len(source.columns):
            raise SqlError(message=wrong_aliases(len(source.columns), len(names)), **location(alias))
        source = renamed(source, names)
    return Relation(source, Scope.of(source, node.alias or default))


def _join_relations(left: Relation, right: Relation, join: exp.Join, env: Environment) -> Relation:
    kind = _JOIN_KINDS.get(((join.args.get("side") or "").upper(), (join.args.get("kind") or "").upper()))
    method = (join.args.get("method") or "").upper()
    if kind is None or method not in ("", "NATURAL"):
        words = [join.args.get(k) for k in ("method", "side", "kind")]
        raise unsupported(" ".join(w for w in words if w) + " JOIN", join, NOT_IN_SPARK)
    if method == "NATURAL":
        return _join_using(left, right, kind, _shared_names(left, right), join, env)
    if join.args.get("using"):
        names = [identifier.name for identifier in join.args["using"]]
        return _join_using(left, right, kind, names, join, env)
    both = left.scope.beside(right.scope, len(left.node.columns))
    on = join.args.get("on")
    condition: list[str] = []
    if on is not None:
        # The condition sees the columns of both sides, also in semi and anti joins.
        pairs = Relation(Join(left.node, right.node, "inner", (), (), ()), replace(both, outer=env.outer))
        condition = env.condition(on, pairs, "ON")
        if any(map(has_placeholder, condition)):
            return join_on_subqueries(left, right, kind, condition, on, env)
    node = _join_nodes(left.node, right.node, kind, condition, env)
    return Relation(node, left.scope if kind in ("semi", "anti") else both)


def _join_nodes(left: Node, right: Node, kind: JoinKind, condition: Sequence[str], env: Environment) -> Node:
    if kind == "inner":
        # The rewrite `order_joins` chooses the join order and the keys, because it sees all tables.
        return filtered(Join(left, right, "inner", (), (), ()), condition)
    return joined(left, right, kind, condition, env.types)


def _shared_names(left: Relation, right: Relation) -> list[str]:
    return [e.name for e in left.scope.star() if right.scope.visible(e.name)]


def _join_using(
    left: Relation, right: Relation, kind: JoinKind, names: Sequence[str], join: exp.Join, env: Environment
) -> Relation:
    """JOIN ... USING: each shared column is visible once, those of the two sides only with a qualifier."""
    width = len(left.node.columns)
    pairs = [(_using_column(left, n, join), _using_column(right, n, join)) for n in names]
    condition = [f"{column(a.position)} = {column(width + b.position)}" for a, b in pairs]
    node = _join_nodes(left.node, right.node, kind, condition, env)
    shared = [Entry(None, a.name, width + b.position if kind == "right" else a.position) for a, b in pairs]
    if kind == "full":
        node, shared = _coalesce_pairs(node, [(a.name, a.position, width + b.position) for a, b in pairs], env)
    using_ids = {id(e) for pair in pairs for e in pair}
    rest = [replace(e, hidden=e.hidden or id(e) in using_ids) for e in left.scope.entries]
    if kind not in ("semi", "anti"):
        rest += [replace(e.shifted(width), hidden=e.hidden or id(e) in using_ids) for e in right.scope.entries]
    return Relation(node, Scope((*shared, *rest)))


def _using_column(side: Relation, name: str, join: exp.Join) -> Entry:
    candidates = side.scope.visible(name)
    if not candidates:
        raise unknown("column", name, [e.name for e in side.scope.star()], _using_origin(join, name))
    if len(candidates) > 1:
        raise SqlError(message=f"column {name!r} of USING is ambiguous", **location(_using_origin(join, name)))
    return candidates[0]


def _using_origin(join: exp.Join, name: str) -> exp.Expr:
    return next((i for i in join.args.get("using") or () if i.name == name), join)


def _coalesce_pairs(node: Node, pairs: Sequence[tuple[str, int, int]], env: Environment) -> tuple[Node, list[Entry]]:
    """Adds the shared columns of a FULL join: the left value, or the right one if the left side has no row."""
    width = len(node.columns)
    texts = [f"COALESCE({column(left)}, {column(right)})" for _, left, right in pairs]
    types = env.types.of(node.columns, texts)
    extra = tuple(Column(name, type_) for (name, _, _), type_ in zip(pairs, types, strict=True))
    copied = tuple(column(i) for i in range(width))
    entries = [Entry(None, name, width + i) for i, (name, _, _) in enumerate(pairs)]
    return Project(node, (*copied, *texts), node.columns + extra), entries
