"""Replaces each subquery in an expression by a placeholder call, until `subqueries` joins it.

    x IN (SELECT ...)   ->   _subquery(0, x)        0 is the number of the subquery in `Subqueries`

Names and groups inside a placeholder are then resolved as in any other function call.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Literal

from sqlglot import exp

from tailrace.plan.sql import functions
from tailrace.plan.sql.dialect import generate
from tailrace.plan.sql.refuse import unsupported

Use = Literal["exists", "in", "scalar"]
_CALL = "_subquery"


@dataclass(frozen=True)
class Subquery:
    """A query inside an expression, and how the expression uses it."""

    use: Use
    query: exp.Expr


@dataclass
class Subqueries:
    """The subqueries behind the placeholders, by number. Equal subqueries share a number."""

    items: list[Subquery] = field(default_factory=list)
    _numbers: dict[tuple[Use, str], int] = field(default_factory=dict)

    def number(self, subquery: Subquery) -> int:
        identity = subquery.use, generate(subquery.query)
        if identity not in self._numbers:
            self._numbers[identity] = len(self.items)
            self.items.append(subquery)
        return self._numbers[identity]

    def of(self, call: exp.Expr) -> Subquery:
        return self.items[int(call.expressions[0].name)]


def insert_placeholders(tree: exp.Expr, subqueries: Subqueries) -> exp.Expr:
    """A copy of the expression with placeholders for its subqueries, which are added to `subqueries`."""

    def rewrite(node: exp.Expr) -> exp.Expr:
        subquery, operands = _subquery(node)
        if subquery is None:
            return node
        if node.find_ancestor(exp.Lambda):
            raise unsupported("a subquery in a lambda function", node, "a lambda reads only its arguments and the row")
        number = exp.Literal.number(subqueries.number(subquery))
        call = exp.Anonymous(this=_CALL, expressions=[number, *(insert_placeholders(o, subqueries) for o in operands)])
        positioned = next((n for n in node.walk() if "line" in n.meta), None)
        return call.update_positions(positioned)

    return tree.transform(rewrite)


def _subquery(node: exp.Expr) -> tuple[Subquery | None, list[exp.Expr]]:
    if isinstance(node, exp.Exists) and isinstance(node.this, exp.Query):
        return Subquery("exists", node.this), []
    query = node.args.get("query") if isinstance(node, exp.In) else None
    if query is not None:
        left = node.this.unnest()
        return Subquery("in", query), list(left.expressions) if isinstance(left, exp.Tuple) else [left]
    if isinstance(node, exp.Query) and not isinstance(node.parent, exp.Any | exp.All):
        return Subquery("scalar", node), []
    return None, []


def is_placeholder(node: exp.Expr) -> bool:
    return functions.name(node) == _CALL


def has_placeholder(text: str) -> bool:
    return f"{_CALL}(" in text.lower()


def placeholders(tree: exp.Expr) -> list[exp.Expr]:
    """The placeholders in an expression, inner ones first."""
    return [n for n in reversed(list(tree.walk(bfs=True))) if is_placeholder(n)]
