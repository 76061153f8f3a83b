"""References from a subquery to the query around it.

While a subquery is planned, column 3 of the query around it, a BIGINT, is written `^0.3:bigint` in
backquotes, where 0 counts the queries around that one. Everything between takes it for a constant of that
type; `decorrelate` turns it into a join key.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, fields
from functools import lru_cache
from typing import TYPE_CHECKING

from sqlglot import exp

from tailrace.plan.expressions import operand, parse_expr, with_fields
from tailrace.plan.nodes import Node, walk
from tailrace.plan.sql.dialect import generate
from tailrace.plan.sql.refuse import unsupported
from tailrace.types import Column

if TYPE_CHECKING:
    from tailrace.plan.build.scope import Scope

_REFERENCE = re.compile(r"\^(\d+)\.(\d+):(.*)\Z", re.DOTALL)


@dataclass(frozen=True)
class Outer:
    """The query around a subquery: what its columns are called, and their types."""

    scope: Scope
    columns: tuple[Column, ...]

    @property
    def depth(self) -> int:
        return 0 if self.scope.outer is None else 1 + self.scope.outer.depth

    def reference(self, node: exp.Column) -> exp.Expr | None:
        """What a column that the subquery itself lacks stands for; None if it is not known here either."""
        found = self.scope.find(node)
        if found is None:
            if self.scope.outer is not None and self.scope.outer.reference(node) is not None:
                reason = "the query between must select the column for its subquery"
                raise unsupported("a subquery that reads a query two levels out", node, reason)
            return None
        entry, parts = found
        at = next((n for n in node.walk() if "line" in n.meta), None)
        text = f"^{self.depth}.{entry.position}:{self.columns[entry.position].type}"
        marker = exp.Column(this=exp.Identifier(this=text, quoted=True).update_positions(at))
        return with_fields(marker, parts)


def is_outer(node: exp.Column) -> bool:
    return _match(node) is not None


def _match(node: exp.Column) -> re.Match[str] | None:
    first = node.parts[0]
    return _REFERENCE.match(first.name) if first.args.get("quoted") else None


@lru_cache(maxsize=4096)
def outer_refs(text: str, depth: int) -> frozenset[int]:
    """Positions that an expression reads of the query at this depth."""
    if f"`^{depth}." not in text:
        return frozenset()
    found = (_match(c) for c in parse_expr(text).find_all(exp.Column))
    return frozenset(int(m[2]) for m in found if m is not None and int(m[1]) == depth)


def with_outer(text: str, depth: int, replacements: Mapping[int, str]) -> str:
    """The expression with what it reads of the query at this depth replaced."""
    if f"`^{depth}." not in text:
        return text

    def replace(node: exp.Expr) -> exp.Expr:
        found = _match(node) if isinstance(node, exp.Column) else None
        if found is None or int(found[1]) != depth or not isinstance(node, exp.Column):
            return node
        return with_fields(operand(parse_expr(replacements[int(found[2])])), node.parts[1:])

    return generate(parse_expr(text).transform(replace))


def typed(text: str) -> str:
    """An expression of the same type that reads nothing outside."""
    if "`^" not in text:
        return text

    def replace(node: exp.Expr) -> exp.Expr:
        found = _match(node) if isinstance(node, exp.Column) else None
        if found is None or not isinstance(node, exp.Column):
            return node
        return with_fields(parse_expr(f"CAST(NULL AS {found[3]})").copy(), node.parts[1:])

    return generate(parse_expr(text).transform(replace))


def reads_outer(node: Node, depth: int) -> bool:
    """Whether anything in a plan reads the query at this depth."""
    return any(f"`^{depth}." in _texts(part) for part in walk(node))


def read_outside(node: Node, depth: int) -> frozenset[int]:
    """The columns of the query at this depth that anything in a plan reads."""
    found = (re.findall(rf"`\^{depth}\.(\d+):", _texts(part)) for part in walk(node))
    return frozenset(int(position) for positions in found for position in positions)


def _texts(node: Node) -> str:
    own = [f.name for f in fields(node) if not f.metadata.get("input") and f.name != "branches"]
    return repr([getattr(node, name) for name in own])
