"""ORDER BY, LIMIT and OFFSET.

With LIMIT or OFFSET they are a TopK, which may be ordered by what the query does not show. ORDER BY alone
changes no row: as far as it speaks of columns that are shown, it is the order in which a view is read.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from sqlglot import exp

from tailrace.errors import SqlError, Unsupported
from tailrace.plan.build.grouping import Item
from tailrace.plan.build.scope import Scope, expand_aliases, is_bound, output_name, unknown
from tailrace.plan.build.windows import has_window
from tailrace.plan.joining import selected
from tailrace.plan.nodes import Node, Order, TopK
from tailrace.plan.sql.dialect import generate, location
from tailrace.plan.sql.refuse import refuse_expression, unsupported
from tailrace.types import is_scalar


@dataclass(frozen=True)
class Sorting:
    """ORDER BY over a list of items: which item each of its expressions is.

    `hidden` are items that the query does not show; they come after those that it does.
    """

    order: Order
    hidden: tuple[Item, ...] = ()


def bounds(query: exp.Expr) -> tuple[int, int | None]:
    """OFFSET and LIMIT; (0, None) when there are none."""
    offset, limit = query.args.get("offset"), query.args.get("limit")
    if isinstance(limit, exp.Fetch):
        raise unsupported("FETCH", limit if location(limit) else query, "write LIMIT")
    return _number(offset, "OFFSET") or 0, _number(limit, "LIMIT")


def _number(clause: exp.Expr | None, word: str) -> int | None:
    if clause is None:
        return None
    value = clause.expression.unnest()
    if word == "LIMIT" and generate(value).upper() == "ALL":
        return None
    if isinstance(value, exp.Literal) and value.is_int:
        return int(value.name)
    raise SqlError(message=f"{word} needs a whole number, not {generate(value)}", **location(clause))


def is_limited(query: exp.Expr) -> bool:
    return bounds(query) != (0, None)


def sorting(query: exp.Expr, items: Sequence[Item], scope: Scope) -> Sorting:
    """The ORDER BY of a query with these items.

    As in Spark, a name is that of an item before it is that of a column of FROM.
    """
    clause = query.args.get("order")
    if clause is None:
        return Sorting(())
    aliases = {i.name.lower(): i.tree for i in reversed(items)}
    known = [_canonical(i.tree, scope) for i in items]
    order: dict[int, tuple[int, bool, bool]] = {}
    hidden: list[Item] = []
    for ordered in clause.expressions:
        for position in _every(ordered, items) or [_ordinal(ordered.this, items)]:
            if position is None:
                tree = expand_aliases(ordered.this, aliases, lambda c: len(c.parts) == 1 and not is_bound(c))
                _check(tree, items, scope)
                text = _canonical(tree, scope)
                if text not in known:
                    known.append(text)
                    hidden.append(Item(output_name(tree), tree))
                position = known.index(text)
            order.setdefault(position, (position, not ordered.args.get("desc"), bool(ordered.args.get("nulls_first"))))
    return Sorting(tuple(order.values()), tuple(hidden))


def _every(ordered: exp.Expr, items: Sequence[Item]) -> list[int | None]:
    """The positions of ORDER BY ALL."""
    return list(range(len(items))) if isinstance(ordered.this, exp.Var) and ordered.name.upper() == "ALL" else []


def _ordinal(tree: exp.Expr, items: Sequence[Item]) -> int | None:
    if not (isinstance(tree, exp.Literal) and tree.is_int):
        return None
    number = int(tree.name)
    if not 1 <= number <= len(items):
        raise SqlError(message=f"ORDER BY {number}: the select list has {len(items)} columns", **location(tree))
    return number - 1


def _check(tree: exp.Expr, items: Sequence[Item], scope: Scope) -> None:
    """Where ORDER BY decides nothing but the reading, a mistake in it still is one."""
    if not has_window(tree):
        refuse_expression(tree)
    for node in tree.find_all(exp.Column):
        if not is_bound(node) and scope.find(node) is None:
            known = [*(i.name for i in items), *(e.name for e in scope.entries)]
            raise unknown("column", node.name, known, node)


def _canonical(tree: exp.Expr, scope: Scope) -> str:
    """Equal for expressions that say the same of the same columns, however these are qualified."""

    def rewrite(node: exp.Expr) -> exp.Expr:
        found = scope.find(node) if isinstance(node, exp.Column) and not is_bound(node) and not node.is_star else None
        if found is None:
            return node
        return exp.Identifier(this=".".join([f"_{found[0].position}", *(f.name for f in found[1])]), quoted=True)

    return generate(exp.Paren(this=tree.copy()).transform(rewrite).this.unnest())


def limited(node: Node, order: Order, query: exp.Expr, shown: int) -> Node:
    """The rows that LIMIT and OFFSET leave, and of their columns those that are shown."""
    offset, limit = bounds(query)
    if (offset, limit) != (0, None):
        for position, _, _ in order:
            if not is_scalar(node.columns[position].type):
                reason = "order by its elements or fields"
                raise Unsupported(
                    construct="LIMIT over an order by an array, map or struct", reason=reason, **location(query)
                )
        node = TopK(node, (), order, offset, limit, False)
    return selected(node, range(shown))


def readable(order: Order, node: Node) -> Order:
    """The part of an order by which readers of a view can sort: up to what is not shown, or not a scalar."""
    found = []
    for part in order:
        if part[0] >= len(node.columns) or not is_scalar(node.columns[part[0]].type):
            break
        found.append(part)
    return tuple(found)
