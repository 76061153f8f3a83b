"""Builds the plan of a query: resolves names, finds types, and refuses what cannot be maintained.

The plan follows the query as written. The rewrites in `plan/rewrite` then make it cheap to maintain.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import NamedTuple

from sqlglot import exp

from tailrace.errors import SqlError
from tailrace.plan.build.context import Environment, Relation, Relations
from tailrace.plan.build.followed import note_star
from tailrace.plan.build.generators import (
    apply_generators,
    has_generator,
    read_generator_item,
    split_generator_arguments,
)
from tailrace.plan.build.grouping import Item, aggregated
from tailrace.plan.build.limits import apply_limit, is_limited, read_order_by, readable_order
from tailrace.plan.build.placeholders import Subqueries, insert_placeholders
from tailrace.plan.build.relations import build_from
from tailrace.plan.build.scope import Scope, expand_aliases, output_name, wrong_aliases
from tailrace.plan.build.setops import build_set_operation, distinct_rows
from tailrace.plan.build.subqueries import apply_conditions, join_subqueries
from tailrace.plan.build.time_windows import apply_time_windows
from tailrace.plan.build.values import inline_table
from tailrace.plan.build.windows import apply_windows, expand_named_windows, has_window, split_windows_over_groups
from tailrace.plan.joining import renamed
from tailrace.plan.nodes import Node, Order, Project
from tailrace.plan.sql import functions
from tailrace.plan.sql.dialect import location
from tailrace.plan.sql.levels import OuterReference
from tailrace.plan.sql.recomputable import require_storable
from tailrace.plan.sql.refuse import (
    refuse_by_name,
    refuse_clauses,
    refuse_distinct_on,
    refuse_recursive,
    unknown,
    unsupported,
    unsupported_relation,
)
from tailrace.plan.typing import ExpressionFault, Typer, Types
from tailrace.types import Column

__all__ = ["Built", "ExpressionFault", "Typer", "Types", "build", "build_view"]


class Built(NamedTuple):
    """A query's plan and its ORDER BY."""

    node: Node
    order: Order = ()


def build(query: exp.Expr, relations: Relations, typer: Typer | Types) -> Node:
    """The plan of a view's query. `relations(name)` returns the plan of a table or view, or None."""
    return build_view(query, relations, typer).node


def build_view(
    query: exp.Expr, relations: Relations, typer: Typer | Types, noted: list[OuterReference] | None = None
) -> Built:
    """The plan and the order in which readers see the view. The plan itself has no row order.

    `noted` collects the references of subqueries to the queries around them.
    """
    types = typer if isinstance(typer, Types) else Types(typer)
    try:
        node, order = _build_query(query, Environment(relations, types, {}, _build_node, noted=noted))
    except RecursionError:
        raise SqlError(message="the query is nested too deeply") from None
    require_storable(node.columns, query)
    return Built(node, readable_order(order, node))


def _build_node(query: exp.Expr, env: Environment) -> Node:
    return _build_query(query, env).node


def _build_query(query: exp.Expr, env: Environment) -> Built:
    env = _with_ctes(query, env)
    if isinstance(query, exp.Select):
        return _build_select(query, env)
    refuse_clauses(query)
    if isinstance(query, exp.Subquery):
        inner = _build_query(query.this, env)
        return _apply_order(inner.node, query, env) if query.args.get("order") or is_limited(query) else inner
    if isinstance(query, exp.SetOperation):
        refuse_by_name(query)
        node = build_set_operation(query, _build_node(query.this, env), _build_node(query.expression, env), env)
        return _apply_order(node, query, env)
    if isinstance(query, exp.Values):
        return _apply_order(inline_table(query, env), query, env)
    raise unsupported_relation(query)


def _apply_order(node: Node, query: exp.Expr, env: Environment) -> Built:
    """Applies an ORDER BY and LIMIT that can name only the output columns of `node`.

    Examples are those of a set operation, of VALUES, and of a query in parentheses.
    """
    relation = Relation(node, Scope.of(node, None))
    items = [Item(e.name, e.reference(query)) for e in relation.scope.entries]
    sort = read_order_by(query, items, relation.scope)
    if is_limited(query):
        extended = _project(relation, [*items, *sort.hidden], env) if sort.hidden else node
        return Built(apply_limit(extended, sort.order, query, len(items)), sort.order)
    return Built(node, sort.order)


def _with_ctes(query: exp.Expr, env: Environment) -> Environment:
    clause = query.args.get("with_")
    if clause is None:
        return env
    refuse_recursive(clause)
    for cte in clause.expressions:
        node = _build_node(cte.this, env)
        names = [c.name for c in cte.args["alias"].args.get("columns") or ()]
        if names and len(names) != len(node.columns):
            message = f"WITH {cte.alias}: {wrong_aliases(len(node.columns), len(names))}"
            raise SqlError(message=message, **location(cte))
        env = env.with_cte(cte.alias, renamed(node, names) if names else node)
    return env


def _build_select(select: exp.Select, env: Environment) -> Built:
    refuse_clauses(select)
    refuse_distinct_on(select)
    relation = build_from(select, env, _build_node)
    where = select.args.get("where")
    if where is not None:
        condition = env.condition(where.this, relation, "WHERE")
        relation = apply_conditions(relation, condition, where.this, "WHERE", env)
    select, relation = apply_time_windows(select, relation, env)
    items = [
        replace(i, tree=expand_named_windows(i.tree, select))
        for i in _read_items(select, relation.scope, env.subqueries)
    ]
    if has_generator(items):
        node = _build_with_generator(select, relation, items, env)
        return _apply_order(distinct_rows(node) if select.args.get("distinct") else node, select, env)
    sort = read_order_by(select, items, relation.scope)
    hidden = [Item(i.name, expand_named_windows(i.tree, select)) for i in sort.hidden] if is_limited(select) else []
    node = _build_select_list(select, relation, items, hidden, env)
    if select.args.get("distinct") is not None:
        if hidden:
            message = "ORDER BY of SELECT DISTINCT can use only expressions of the select list"
            raise SqlError(message=message, **location(hidden[0].tree))
        node = distinct_rows(node)
    return Built(apply_limit(node, sort.order, select, len(items)) if is_limited(select) else node, sort.order)


def _build_with_generator(select: exp.Select, relation: Relation, items: Sequence[Item], env: Environment) -> Node:
    """Plans a select list with a generator such as explode(): first the grouping, if any, then the generator."""
    group, having = select.args.get("group"), select.args.get("having")
    trees = [i.tree for i in items]
    if select.args.get("qualify") or any(has_window(t) for t in trees):
        raise unsupported("a window function together with a generator", select, "put one of them in a subquery")
    if group is not None or having is not None or any(functions.has_aggregate(t) for t in trees):
        below, items = split_generator_arguments(items)
        relation = Relation(aggregated(relation, below, group, having, env), Scope(()))
    return _project(*apply_generators(relation, items, env), env)


def _build_select_list(
    select: exp.Select, relation: Relation, items: Sequence[Item], hidden: Sequence[Item], env: Environment
) -> Node:
    """Plans grouping, windows, QUALIFY and projection. Output: the select list, then `hidden` items of ORDER BY."""
    shown = [*items, *hidden]
    qualify = _read_qualify(select, relation.scope, items, env)
    group, having = select.args.get("group"), select.args.get("having")
    trees = [i.tree for i in shown] + qualify
    grouped = group is not None or having is not None or any(functions.has_aggregate(t) for t in trees)
    if qualify or any(has_window(t) for t in trees):
        if grouped:
            pieces, trees = split_windows_over_groups(trees)
            relation = Relation(aggregated(relation, items, group, having, env, pieces), Scope(()))
        relation, trees = apply_windows(relation, trees, env)
        for tree in trees[len(shown) :]:
            relation = apply_conditions(relation, env.condition(tree, relation, "QUALIFY"), tree, "QUALIFY", env)
        shown = [Item(i.name, tree) for i, tree in zip(shown, trees, strict=False)]
    elif grouped:
        return aggregated(relation, items, group, having, env, shown)
    return _project(relation, shown, env)


def _read_qualify(select: exp.Select, scope: Scope, items: Sequence[Item], env: Environment) -> list[exp.Expr]:
    """The condition of QUALIFY with aliases expanded; empty without QUALIFY."""
    clause = select.args.get("qualify")
    if clause is None:
        return []
    aliases = {i.name.lower(): i.tree for i in reversed(items)}
    tree = expand_aliases(insert_placeholders(clause.this, env.subqueries), aliases, lambda c: scope.find(c) is None)
    return [expand_named_windows(tree, select)]


def _project(relation: Relation, items: Sequence[Item], env: Environment) -> Node:
    relation, texts = join_subqueries(relation, [env.resolve(i.tree, relation) for i in items], env)
    types = env.types.of(relation.node.columns, texts, [i.tree for i in items])
    output = tuple(Column(i.name, type_) for i, type_ in zip(items, types, strict=True))
    return Project(relation.node, tuple(texts), output)


def _read_items(select: exp.Select, scope: Scope, subqueries: Subqueries) -> list[Item]:
    """Reads the select list. Expands stars, and replaces aliases of earlier items by their expressions."""
    items: list[Item] = []
    aliases: dict[str, exp.Expr] = {}
    for tree in select.expressions:
        if tree.is_star and not isinstance(tree, exp.Anonymous | exp.Query):
            items += _expand_star(tree, scope)
            continue
        generator = read_generator_item(tree, len(items))
        if generator is not None:
            item, reference = generator
            body = expand_aliases(item.tree, aliases, lambda c: scope.find(c) is None)
            items.append(replace(item, tree=body))
            if reference is not None:
                aliases.setdefault(reference.name.lower(), reference)
            continue
        if isinstance(tree, exp.Aliases):
            raise SqlError(message="an expression can have only one alias", **location(tree))
        name = tree.alias if isinstance(tree, exp.Alias) else output_name(tree)
        body = insert_placeholders(tree.this if isinstance(tree, exp.Alias) else tree, subqueries)
        body = expand_aliases(body, aliases, lambda c: scope.find(c) is None)
        items.append(Item(name, body))
        if isinstance(tree, exp.Alias):
            aliases.setdefault(name.lower(), body)
    return items


def _expand_star(tree: exp.Expr, scope: Scope) -> list[Item]:
    star = tree if isinstance(tree, exp.Star) else tree.this
    qualifier = None if tree is star else tree.args.get("table")
    entries = scope.star(qualifier)
    note_star(tree, entries)
    excluded = star.args.get("except_") or ()
    for item in excluded:
        if all(e.name.lower() != item.name.lower() for e in entries):
            raise unknown("column", item.name, [e.name for e in entries], item)
    excluded_names = {item.name.lower() for item in excluded}
    return [Item(e.name, e.reference(tree)) for e in entries if e.name.lower() not in excluded_names]
