"""Subqueries in expressions, each replaced by a call that stands for it until it is joined.

`x IN (SELECT ...)` becomes `_subquery(0, x)`: names are resolved and groups are found in it as in any
other expression, and number 0 says which query is meant.
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
    """A query in an expression, and whether its rows, its values or its value are asked for."""

    use: Use
    query: exp.Expr


@dataclass
class Held:
    """The subqueries that placeholders stand for; equal ones have one number."""

    found: list[Subquery] = field(default_factory=list)
    _numbers: dict[tuple[Use, str], int] = field(default_factory=dict)

    def number(self, subquery: Subquery) -> int:
        name = subquery.use, generate(subquery.query)
        if name not in self._numbers:
            self._numbers[name] = len(self.found)
            self.found.append(subquery)
        return self._numbers[name]

    def of(self, call: exp.Expr) -> Subquery:
        return self.found[int(call.expressions[0].name)]


def cut(tree: exp.Expr, held: Held) -> exp.Expr:
    """The expression with placeholders for its subqueries, as a new tree."""

    def rewrite(node: exp.Expr) -> exp.Expr:
        subquery, operands = _subquery(node)
        if subquery is None:
            return node
        if node.find_ancestor(exp.Lambda):
            raise unsupported("a subquery in a lambda function", node, "a lambda sees its arguments and its row only")
        number = exp.Literal.number(held.number(subquery))
        call = exp.Anonymous(this=_CALL, expressions=[number, *(cut(o, held) for o in operands)])
        at = next((n for n in node.walk() if "line" in n.meta), None)
        return call.update_positions(at)

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
    """The placeholders in an expression, those in operands of others before these."""
    return [n for n in reversed(list(tree.walk(bfs=True))) if is_placeholder(n)]
