"""A query to plan nodes: names resolved, types known, everything that is not maintained yet refused.

The plan says what the query means, close to how it was written; `rewrites` makes it cheap to maintain.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import NamedTuple

from sqlglot import exp

from tailrace.errors import SqlError
from tailrace.plan.build.context import Environment, Relation, Relations
from tailrace.plan.build.generators import arguments_first, generator_item, has_generator, spread
from tailrace.plan.build.grouping import Item, aggregated
from tailrace.plan.build.limits import is_limited, limited, readable, sorting
from tailrace.plan.build.placeholders import Held, cut
from tailrace.plan.build.relations import from_clause
from tailrace.plan.build.scope import Scope, expand_aliases, output_name, unknown
from tailrace.plan.build.setops import all_distinct, combined
from tailrace.plan.build.subqueries import attached, restricted
from tailrace.plan.build.values import inline_table
from tailrace.plan.build.windows import has_window, over_groups, windowed, with_named
from tailrace.plan.joining import renamed
from tailrace.plan.nodes import Node, Order, Project
from tailrace.plan.sql import functions
from tailrace.plan.sql.dialect import location
from tailrace.plan.sql.refuse import (
    refuse_by_name,
    refuse_clauses,
    refuse_distinct_on,
    refuse_recursive,
    unsupported,
    unsupported_relation,
)
from tailrace.plan.typing import ExpressionFault, Typer, Types
from tailrace.types import Column, arrow

__all__ = ["Built", "ExpressionFault", "Typer", "Types", "build", "build_view"]


class Built(NamedTuple):
    """A query's plan, and the order of its columns that it is read in."""

    node: Node
    order: Order = ()


def build(query: exp.Expr, relations: Relations, typer: Typer | Types) -> Node:
    """The plan of a view's query. `relations(name)` is the plan of a table or view, or None."""
    return build_view(query, relations, typer).node


def build_view(query: exp.Expr, relations: Relations, typer: Typer | Types) -> Built:
    """The plan, and the order that readers of the view see: rows of a relation have none, its readers do."""
    types = typer if isinstance(typer, Types) else Types(typer)
    try:
        node, order = _built(query, Environment(relations, types, {}, _query))
    except RecursionError:
        raise SqlError(message="the query is nested too deeply") from None
    _require_storable(node, query)
    return Built(node, readable(order, node))


def _require_storable(node: Node, query: exp.Expr) -> None:
    """A view's columns have names of their own and types that the store holds."""
    seen: set[str] = set()
    for index, item in enumerate(node.columns):
        at, name = _item_location(query, index, len(node.columns)), item.name.lower()
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


def _item_location(query: exp.Expr, index: int, count: int) -> dict[str, int]:
    items = query.expressions if isinstance(query, exp.Select) else []
    return location(items[index] if len(items) == count else query)


def _query(query: exp.Expr, env: Environment) -> Node:
    return _built(query, env).node


def _built(query: exp.Expr, env: Environment) -> Built:
    env = _with_ctes(query, env)
    if isinstance(query, exp.Select):
        return _select(query, env)
    refuse_clauses(query)
    if isinstance(query, exp.Subquery):
        inner = _built(query.this, env)
        return _ordered(inner.node, query, env) if query.args.get("order") or is_limited(query) else inner
    if isinstance(query, exp.SetOperation):
        refuse_by_name(query)
        node = combined(query, _query(query.this, env), _query(query.expression, env), env)
        return _ordered(node, query, env)
    if isinstance(query, exp.Values):
        return _ordered(inline_table(query, env), query, env)
    raise unsupported_relation(query)


def _ordered(node: Node, query: exp.Expr, env: Environment) -> Built:
    """ORDER BY and LIMIT of a set operation or of a query in parentheses, which see its columns alone."""
    relation = Relation(node, Scope.of(node, None))
    items = [Item(e.name, e.reference(query)) for e in relation.scope.entries]
    sort = sorting(query, items, relation.scope)
    if is_limited(query):
        extended = _projected(relation, [*items, *sort.hidden], env) if sort.hidden else node
        return Built(limited(extended, sort.order, query, len(items)), sort.order)
    return Built(node, sort.order)


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
            raise SqlError(message=message, **location(cte))
        env = env.with_cte(cte.alias, renamed(node, names) if names else node)
    return env


def _select(select: exp.Select, env: Environment) -> Built:
    refuse_clauses(select)
    refuse_distinct_on(select)
    relation = from_clause(select, env, _query)
    where = select.args.get("where")
    if where is not None:
        condition = env.condition(where.this, relation, "WHERE")
        relation = restricted(relation, condition, where.this, "WHERE", env)
    items = [replace(i, tree=with_named(i.tree, select)) for i in _items(select, relation.scope, env.held)]
    if has_generator(items):
        node = _spread(select, relation, items, env)
        return _ordered(all_distinct(node) if select.args.get("distinct") else node, select, env)
    sort = sorting(select, items, relation.scope)
    hidden = [Item(i.name, with_named(i.tree, select)) for i in sort.hidden] if is_limited(select) else []
    node = _selected(select, relation, items, hidden, env)
    if select.args.get("distinct") is not None:
        if hidden:
            raise SqlError(
                message="ORDER BY of SELECT DISTINCT needs a column that it shows", **location(hidden[0].tree)
            )
        node = all_distinct(node)
    return Built(limited(node, sort.order, select, len(items)) if is_limited(select) else node, sort.order)


def _spread(select: exp.Select, relation: Relation, items: Sequence[Item], env: Environment) -> Node:
    """A select list with functions that make rows: grouped first, if it is, then spread."""
    group, having = select.args.get("group"), select.args.get("having")
    trees = [i.tree for i in items]
    if select.args.get("qualify") or any(has_window(t) for t in trees):
        raise unsupported("a window function beside explode() and its kin", select, "put one of them in a subquery")
    if group is not None or having is not None or any(functions.has_aggregate(t) for t in trees):
        below, items = arguments_first(items)
        relation = Relation(aggregated(relation, below, group, having, env), Scope(()))
    return _projected(*spread(relation, items, env), env)


def _selected(
    select: exp.Select, relation: Relation, items: Sequence[Item], hidden: Sequence[Item], env: Environment
) -> Node:
    """The select list, and after it what only ORDER BY reads: grouped, windowed, qualified, projected."""
    listed = [*items, *hidden]
    qualify = _qualify(select, relation.scope, items, env)
    group, having = select.args.get("group"), select.args.get("having")
    trees = [i.tree for i in listed] + qualify
    grouped = group is not None or having is not None or any(functions.has_aggregate(t) for t in trees)
    if qualify or any(has_window(t) for t in trees):
        if grouped:
            pieces, trees = over_groups(trees)
            relation = Relation(aggregated(relation, items, group, having, env, pieces), Scope(()))
        relation, trees = windowed(relation, trees, env)
        for tree in trees[len(listed) :]:
            relation = restricted(relation, env.condition(tree, relation, "QUALIFY"), tree, "QUALIFY", env)
        listed = [Item(i.name, tree) for i, tree in zip(listed, trees, strict=False)]
    elif grouped:
        return aggregated(relation, items, group, having, env, listed)
    return _projected(relation, listed, env)


def _qualify(select: exp.Select, scope: Scope, items: Sequence[Item], env: Environment) -> list[exp.Expr]:
    """The condition of QUALIFY, which may use aliases of the select list."""
    clause = select.args.get("qualify")
    if clause is None:
        return []
    aliases = {i.name.lower(): i.tree for i in reversed(items)}
    tree = expand_aliases(cut(clause.this, env.held), aliases, lambda c: scope.find(c) is None)
    return [with_named(tree, select)]


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
            raise SqlError(message="an expression has one alias", **location(tree))
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
