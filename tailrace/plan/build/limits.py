"""Plans ORDER BY, LIMIT and OFFSET.

With LIMIT or OFFSET, they become a TopK, which may also sort by expressions that are not in the select list. ORDER BY
alone changes no row: it is only the order in which readers see the view, as far as it names output columns.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from sqlglot import exp

from tailrace.errors import SqlError, Unsupported
from tailrace.plan.build.grouping import Item
from tailrace.plan.build.scope import Scope, counted, expand_aliases, is_bound, output_name
from tailrace.plan.build.windows import has_window
from tailrace.plan.joining import selected
from tailrace.plan.nodes import Node, Order, TopK
from tailrace.plan.sql.dialect import generate, location
from tailrace.plan.sql.refuse import refuse_expression, unknown, unsupported
from tailrace.types import is_scalar


@dataclass(frozen=True)
class Sorting:
    """ORDER BY as positions in a list of items: those of the select list, then `hidden`.

    `hidden` are the ORDER BY expressions that are not in the select list.
    """

    order: Order
    hidden: tuple[Item, ...] = ()


def _bounds(query: exp.Expr) -> tuple[int, int | None]:
    """OFFSET and LIMIT; (0, None) if the query has neither."""
    offset, limit = query.args.get("offset"), query.args.get("limit")
    if isinstance(limit, exp.Fetch):
        raise unsupported("FETCH", limit if location(limit) else query, "write LIMIT")
    return _read_number(offset, "OFFSET") or 0, _read_number(limit, "LIMIT")


def _read_number(clause: exp.Expr | None, word: str) -> int | None:
    if clause is None:
        return None
    value = clause.expression.unnest()
    if word == "LIMIT" and generate(value).upper() == "ALL":
        return None
    if isinstance(value, exp.Literal) and value.is_int:
        return int(value.name)
    raise SqlError(message=f"{word} needs a whole number, not {generate(value)}", **location(clause))


def is_limited(query: exp.Expr) -> bool:
    return _bounds(query) != (0, None)


def read_order_by(query: exp.Expr, items: Sequence[Item], scope: Scope) -> Sorting:
    """Resolves the ORDER BY of a query with this select list.

    As in Spark, an alias of the select list takes precedence over a column of FROM.
    """
    clause = query.args.get("order")
    if clause is None:
        return Sorting(())
    aliases = {i.name.lower(): i.tree for i in reversed(items)}
    canonical_texts = [_canonical(i.tree, scope) for i in items]
    order: dict[int, tuple[int, bool, bool]] = {}
    hidden: list[Item] = []
    for ordered in clause.expressions:
        for position in _positions_of_all(ordered, items) or [_ordinal_position(ordered.this, items)]:
            if position is None:
                tree = expand_aliases(ordered.this, aliases, lambda c: len(c.parts) == 1 and not is_bound(c))
                _check_expression(tree, items, scope)
                text = _canonical(tree, scope)
                if text not in canonical_texts:
                    canonical_texts.append(text)
                    hidden.append(Item(output_name(tree), tree))
                position = canonical_texts.index(text)
            ascending, nulls_first = not ordered.args.get("desc"), bool(ordered.args.get("nulls_first"))
            order.setdefault(position, (position, ascending, nulls_first))
    return Sorting(tuple(order.values()), tuple(hidden))


def _positions_of_all(ordered: exp.Expr, items: Sequence[Item]) -> list[int | None]:
    """All positions for ORDER BY ALL; empty for anything else."""
    return list(range(len(items))) if isinstance(ordered.this, exp.Var) and ordered.name.upper() == "ALL" else []


def _ordinal_position(tree: exp.Expr, items: Sequence[Item]) -> int | None:
    if not (isinstance(tree, exp.Literal) and tree.is_int):
        return None
    number = int(tree.name)
    if not 1 <= number <= len(items):
        raise SqlError(
            message=f"ORDER BY {number}: the select list has {counted(len(items), 'column')}", **location(tree)
        )
    return number - 1


def _check_expression(tree: exp.Expr, items: Sequence[Item], scope: Scope) -> None:
    """Checks an ORDER BY expression. Without LIMIT it is in no plan, so nothing else would find a mistake in it."""
    if not has_window(tree):
        refuse_expression(tree)
    for node in tree.find_all(exp.Column):
        if not is_bound(node) and scope.find(node) is None:
            known = [*(i.name for i in items), *(e.name for e in scope.entries)]
            raise unknown("column", node.name, known, node)


def _canonical(tree: exp.Expr, scope: Scope) -> str:
    """The expression with columns as positions. Texts are equal even if columns are qualified differently."""

    def rewrite(node: exp.Expr) -> exp.Expr:
        if not isinstance(node, exp.Column) or is_bound(node) or node.is_star:
            return node
        column_and_fields = scope.find(node)
        if column_and_fields is None:
            return node
        entry, fields = column_and_fields
        return exp.Identifier(this=".".join([f"_{entry.position}", *(f.name for f in fields)]), quoted=True)

    return generate(exp.Paren(this=tree.copy()).transform(rewrite).this.unnest())


def apply_limit(node: Node, order: Order, query: exp.Expr, width: int) -> Node:
    """Adds a TopK for LIMIT and OFFSET, then keeps the first `width` columns (drops hidden sort columns)."""
    offset, limit = _bounds(query)
    if (offset, limit) != (0, None):
        for position, _, _ in order:
            if not is_scalar(node.columns[position].type):
                construct = "ORDER BY an array, map or struct, with LIMIT"
                raise Unsupported(construct=construct, reason="order by an element or a field of it", **location(query))
        node = TopK(node, (), order, offset, limit, False)
    return selected(node, range(width))


def readable_order(order: Order, node: Node) -> Order:
    """The longest prefix of `order` that readers of the view can sort by: only output columns of scalar types."""
    prefix = []
    for part in order:
        if part[0] >= len(node.columns) or not is_scalar(node.columns[part[0]].type):
            break
        prefix.append(part)
    return tuple(prefix)
