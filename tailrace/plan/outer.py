"""Outer references: how a subquery's expressions refer to columns of the query around it.

    `^0.3:bigint`       column 3, a BIGINT, of the query at depth 0 (the outermost), written in backquotes

While the subquery is planned, everything treats the reference as a constant of that type. `decorrelate` then turns it
into a join key.
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
from tailrace.plan.sql.levels import OuterReference, column_number
from tailrace.types import Column

if TYPE_CHECKING:
    from tailrace.plan.build.scope import Entry, Scope

_REFERENCE = re.compile(r"\^(\d+)\.(\d+):(.*)\Z", re.DOTALL)


@dataclass(frozen=True)
class Outer:
    """The query around a subquery: its names in scope and its columns."""

    scope: Scope
    columns: tuple[Column, ...]
    noted: list[OuterReference] | None = None  # if a list, references are noted here

    @property
    def depth(self) -> int:
        return 0 if self.scope.outer is None else 1 + self.scope.outer.depth

    def reference(self, node: exp.Column) -> exp.Expr | None:
        """The outer reference for a column that the subquery itself does not have; None if no query around has it."""
        match = self.scope.find(node)
        if match is None:
            return None if self.scope.outer is None else self.scope.outer.reference(node)
        entry, parts = match
        self._note(node, entry, parts)
        positioned = next((n for n in node.walk() if "line" in n.meta), None)
        text = f"^{self.depth}.{entry.position}:{self.columns[entry.position].type}"
        marker = exp.Column(this=exp.Identifier(this=text, quoted=True).update_positions(positioned))
        return with_fields(marker, parts)

    def _note(self, node: exp.Column, entry: Entry, parts: list[exp.Expr]) -> None:
        number = column_number(node)
        if self.noted is not None and number is not None:
            value: tuple[int | str, ...] = (entry.position, *(p.name.lower() for p in parts))
            self.noted.append(OuterReference(number, self.depth, value, entry.qualifier))


def is_outer(node: exp.Column) -> bool:
    return _match(node) is not None


def _match(node: exp.Column) -> re.Match[str] | None:
    first = node.parts[0]
    return _REFERENCE.match(first.name) if first.args.get("quoted") else None


@lru_cache(maxsize=4096)
def outer_refs(text: str, depth: int) -> frozenset[int]:
    """The columns of the query at `depth` that an expression reads."""
    if f"`^{depth}." not in text:
        return frozenset()
    matches = (_match(c) for c in parse_expr(text).find_all(exp.Column))
    return frozenset(int(m[2]) for m in matches if m is not None and int(m[1]) == depth)


def replace_outer_refs(text: str, depth: int, replacements: Mapping[int, str]) -> str:
    """The expression with its references to the query at `depth` replaced."""
    if f"`^{depth}." not in text:
        return text

    def replace(node: exp.Expr) -> exp.Expr:
        match = _match(node) if isinstance(node, exp.Column) else None
        if match is None or int(match[1]) != depth or not isinstance(node, exp.Column):
            return node
        return with_fields(operand(parse_expr(replacements[int(match[2])])), node.parts[1:])

    return generate(parse_expr(text).transform(replace))


def null_outer_refs(text: str) -> str:
    """An expression of the same type, with a typed NULL in place of each outer reference."""
    if "`^" not in text:
        return text

    def replace(node: exp.Expr) -> exp.Expr:
        match = _match(node) if isinstance(node, exp.Column) else None
        if match is None or not isinstance(node, exp.Column):
            return node
        return with_fields(parse_expr(f"CAST(NULL AS {match[3]})").copy(), node.parts[1:])

    return generate(parse_expr(text).transform(replace))


def reads_outer(node: Node, depth: int) -> bool:
    """Whether any node of a plan reads the query at `depth`."""
    return any(f"`^{depth}." in _texts(part) for part in walk(node))


def plan_outer_refs(node: Node, depth: int) -> frozenset[int]:
    """The columns of the query at `depth` that the nodes of a plan read."""
    matches = (re.findall(rf"`\^{depth}\.(\d+):", _texts(part)) for part in walk(node))
    return frozenset(int(position) for positions in matches for position in positions)


def _texts(node: Node) -> str:
    """All expressions of a node, without its inputs."""
    own = [f.name for f in fields(node) if not f.metadata.get("input") and f.name != "branches"]
    return repr([getattr(node, name) for name in own])
