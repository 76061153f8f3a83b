"""Shorter versions of a query, each without one part. Most are still valid SQL; the caller asks Spark."""

from __future__ import annotations

from collections.abc import Iterator

from sqlglot import exp

from tailrace.plan.sql import dialect

_WHOLE = (exp.Query, exp.Column, exp.Literal, exp.Alias)
_CLAUSES = ("where", "having", "distinct", "laterals", "group", "with_")


def cuts(sql: str) -> Iterator[str]:
    """Distinct shorter texts, those without the largest parts first."""
    (tree,) = dialect.parse(sql)
    whole = dialect.generate(tree)
    seen = {whole}
    for make in (_inner_queries, _branches, _without_clauses, _without_joins, _without_items, _smaller_expressions):
        for cut in make(tree):
            text = _text(cut)
            if text is not None and text not in seen and len(text) < len(whole):
                seen.add(text)
                yield text


def _text(tree: exp.Expr) -> str | None:
    try:
        return dialect.generate(tree)
    except (ValueError, AttributeError, TypeError):  # the removed part was mandatory
        return None


def _inner_queries(tree: exp.Expr) -> Iterator[exp.Expr]:
    """A subquery or CTE instead of the whole query."""
    for node in tree.find_all(exp.Subquery, exp.CTE):
        if isinstance(node.this, exp.Query):
            yield node.this.copy()


def _branches(tree: exp.Expr) -> Iterator[exp.Expr]:
    """One side of a set operation, of AND or of OR."""
    yield from _replaced(tree, (exp.SetOperation, exp.And, exp.Or), ("this", "expression"))


def _without_clauses(tree: exp.Expr) -> Iterator[exp.Expr]:
    for index, node in enumerate(tree.walk()):
        for clause in _CLAUSES:
            if isinstance(node, exp.Query) and node.args.get(clause):
                copy = tree.copy()
                _at(copy, index).set(clause, None)
                yield copy


def _without_joins(tree: exp.Expr) -> Iterator[exp.Expr]:
    yield from _without_part(tree, "joins", 0)


def _without_items(tree: exp.Expr) -> Iterator[exp.Expr]:
    yield from _without_part(tree, "expressions", 1)


def _without_part(tree: exp.Expr, argument: str, least: int) -> Iterator[exp.Expr]:
    for index, node in enumerate(tree.walk()):
        parts = node.args.get(argument) if isinstance(node, exp.Query | exp.Group) else None
        for number in range(len(parts or ())):
            if len(parts or ()) > least:
                copy = tree.copy()
                node_copy = _at(copy, index)
                node_copy.set(argument, [p for i, p in enumerate(node_copy.args[argument]) if i != number])
                yield copy


def _smaller_expressions(tree: exp.Expr) -> Iterator[exp.Expr]:
    """An argument instead of the whole expression. ORDER BY stays: without a total order the answer is not unique."""
    for index, node in enumerate(tree.walk()):
        if isinstance(
            node, exp.Query | exp.Column | exp.Literal | exp.Alias | exp.Table | exp.Identifier | exp.DataType
        ):
            continue
        if not isinstance(node, exp.Condition | exp.Paren) or node.find_ancestor(exp.Order):
            continue
        for child in node.iter_expressions():
            if isinstance(child, exp.Condition | exp.Paren) and not isinstance(child, exp.Query):
                copy = tree.copy()
                _at(copy, index).replace(child.copy())
                yield copy


def _replaced(tree: exp.Expr, kinds: tuple[type[exp.Expr], ...], arguments: tuple[str, ...]) -> Iterator[exp.Expr]:
    for index, node in enumerate(tree.walk()):
        if not isinstance(node, kinds):
            continue
        for argument in arguments:
            child = node.args[argument].copy()
            if node is tree:
                yield child
            else:
                copy = tree.copy()
                _at(copy, index).replace(child)
                yield copy


def _at(tree: exp.Expr, index: int) -> exp.Expr:
    for number, node in enumerate(tree.walk()):
        if number == index:
            return node
    raise IndexError(index)
