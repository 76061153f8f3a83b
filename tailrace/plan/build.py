"""A query to plan nodes: names resolved, types known, everything that is not maintained yet refused.

The plan says what the query means, close to how it was written; `rewrites` makes it cheap to maintain.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from sqlglot import exp

from tailrace.errors import SqlError
from tailrace.plan import functions
from tailrace.plan.dialect import place
from tailrace.plan.environment import Environment, Relation, Relations, renamed
from tailrace.plan.generators import arguments_first, generator_item, has_generator, is_generator, spread
from tailrace.plan.grouping import Item, aggregated
from tailrace.plan.nodes import Node, Project
from tailrace.plan.placeholders import Held, cut
from tailrace.plan.refuse import (
    refuse_by_name,
    refuse_clauses,
    refuse_distinct_on,
    refuse_expression,
    refuse_recursive,
    refuse_relation,
)
from tailrace.plan.relations import from_clause
from tailrace.plan.scope import Scope, expand_aliases, is_bound, output_name, unknown
from tailrace.plan.setops import all_distinct, combined
from tailrace.plan.subqueries import attached, restricted
from tailrace.plan.typer import ExpressionFault, Typer, Types
from tailrace.plan.values import inline_table
from tailrace.types import Column, arrow

__all__ = ["ExpressionFault", "Typer", "Types", "build"]


def build(query: exp.Expr, relations: Relations, typer: Typer | Types) -> Node:
    """The plan of a view's query.

    `relations(name)` is the plan of a table or view, or None. ORDER BY without LIMIT is dropped: a view
    has no order, its readers do.
    """
    types = typer if isinstance(typer, Types) else Types(typer)
    try:
        node = _query(query, Environment(relations, types, {}, _query))
    except RecursionError:
        raise SqlError(message="the query is nested too deeply") from None
    _require_storable(node, query)
    return node


def _require_storable(node: Node, query: exp.Expr) -> None:
    """A view's columns have names of their own and types that the store holds."""
    seen: set[str] = set()
    for index, item in enumerate(node.columns):
        at, name = _item_place(query, index, len(node.columns)), item.name.lower()
        if name in seen:
            message = f"two columns of the view are called {item.name!r}; give one an alias with AS"
            raise SqlError(message=message, **at)
        if name == "_weight":
            raise SqlError(message="a column cannot be named '_weight': Tailrace needs the name", **at)
        if "void" in item.type:
            message = f"column {item.name!r} has no type; write CAST(NULL AS ...)"
            raise SqlError(message=message, **at)
        arrow(item.type)
        seen.add(name)


def _item_place(query: exp.Expr, index: int, count: int) -> dict[str, int]:
    items = query.expressions if isinstance(query, exp.Select) else []
    return place(items[index] if len(items) == count else query)


def _query(query: exp.Expr, env: Environment) -> Node:
    env = _with_ctes(query, env)
    if isinstance(query, exp.Select):
        return _select(query, env)
    refuse_clauses(query)
    if isinstance(query, exp.Subquery):
        return _query(query.this, env)
    if isinstance(query, exp.SetOperation):
        refuse_by_name(query)
        return combined(query, _query(query.this, env), _query(query.expression, env), env)
    if isinstance(query, exp.Values):
        return inline_table(query, env)
    raise refuse_relation(query)


def _with_ctes(query: exp.Expr, env: Environment) -> Environment:
    clause = query.args.get("with_")
    if clause is None:
        return env
    refuse_recursive(clause)
    for cte in clause.expressions:
        node = _query(cte.this, env)
        names = [c.name for c in cte.args["alias"].args.get("columns") or ()]
        if names and len(names) != len(node.columns):
            message = f"{len(names)} column names for {len(node.columns)} columns of {cte.alias!r}"
            raise SqlError(message=message, **place(cte))
        env = env.with_cte(cte.alias, renamed(node, names) if names else node)
    return env


def _select(select: exp.Select, env: Environment) -> Node:
    refuse_clauses(select)
    refuse_distinct_on(select)
    relation = from_clause(select, env, _query)
    where = select.args.get("where")
    if where is not None:
        condition = env.condition(where.this, relation, "WHERE")
        relation = restricted(relation, condition, where.this, "WHERE", env)
    items = _items(select, relation.scope, env.held)
    for item in items:
        for tree in item.tree.expressions if is_generator(item.tree) else [item.tree]:
            refuse_expression(tree)
    _check_order(select, relation.scope, items)
    group, having = select.args.get("group"), select.args.get("having")
    if group is not None or having is not None or any(functions.has_aggregate(i.tree) for i in items):
        below, items = arguments_first(items) if has_generator(items) else (items, [])
        node = aggregated(relation, below, group, having, env)
        if items:
            node = _projected(*spread(Relation(node, Scope(())), items, env), env)
    else:
        node = _projected(*spread(relation, items, env), env)
    return all_distinct(node) if select.args.get("distinct") is not None else node


def _check_order(select: exp.Select, scope: Scope, items: Sequence[Item]) -> None:
    """ORDER BY is dropped, yet a mistake in it is one."""
    order = select.args.get("order")
    if order is None:
        return
    refuse_expression(order)
    names = [n for i in items for n in (i.names or (i.name,))]
    for node in order.find_all(exp.Column):
        known = is_bound(node) or node.name.lower() in map(str.lower, names)
        if not known and scope.find(node) is None:
            raise unknown("column", node.name, [*names, *(e.name for e in scope.entries)], node)


def _projected(relation: Relation, items: Sequence[Item], env: Environment) -> Node:
    relation, texts = attached(relation, [env.resolve(i.tree, relation) for i in items], env)
    types = env.types.of(relation.node.columns, texts, [i.tree for i in items])
    output = tuple(Column(i.name, kind) for i, kind in zip(items, types, strict=True))
    return Project(relation.node, tuple(texts), output)


def _items(select: exp.Select, scope: Scope, held: Held) -> list[Item]:
    """The select list with stars expanded and aliases of earlier items replaced by what they stand for."""
    items: list[Item] = []
    aliases: dict[str, exp.Expr] = {}
    for tree in select.expressions:
        if tree.is_star and not isinstance(tree, exp.Anonymous | exp.Query):
            items += _star(tree, scope)
            continue
        made = generator_item(tree, len(items))
        if made is not None:
            item, reference = made
            body = expand_aliases(item.tree, aliases, lambda c: scope.find(c) is None)
            items.append(replace(item, tree=body))
            if reference is not None:
                aliases.setdefault(reference.name.lower(), reference)
            continue
        if isinstance(tree, exp.Aliases):
            raise SqlError(message="an expression has one alias", **place(tree))
        name = tree.alias if isinstance(tree, exp.Alias) else output_name(tree)
        body = cut(tree.this if isinstance(tree, exp.Alias) else tree, held)
        body = expand_aliases(body, aliases, lambda c: scope.find(c) is None)
        items.append(Item(name, body))
        if isinstance(tree, exp.Alias):
            aliases.setdefault(name.lower(), body)
    return items


def _star(tree: exp.Expr, scope: Scope) -> list[Item]:
    star = tree if isinstance(tree, exp.Star) else tree.this
    qualifier = None if tree is star else tree.args.get("table")
    entries = scope.star(qualifier)
    left_out = star.args.get("except_") or ()
    for item in left_out:
        if all(e.name.lower() != item.name.lower() for e in entries):
            raise unknown("column", item.name, [e.name for e in entries], item)
    names = {item.name.lower() for item in left_out}
    return [Item(e.name, e.reference(tree)) for e in entries if e.name.lower() not in names]
