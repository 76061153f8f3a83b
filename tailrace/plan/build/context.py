"""What the builder knows while it reads a query: tables, views, CTEs, types."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace

from sqlglot import exp

from tailrace.delta import column
from tailrace.errors import SqlError
from tailrace.plan.sql import functions
from tailrace.plan.sql.dialect import generate, place
from tailrace.plan.expressions import conjuncts
from tailrace.plan.nodes import Node, Project
from tailrace.plan.outer import Outer
from tailrace.plan.build.placeholders import Held, cut, has_placeholder
from tailrace.plan.sql.refuse import refuse_expression
from tailrace.plan.build.scope import Scope, unknown
from tailrace.plan.typing import Types
from tailrace.types import Column

Relations = Callable[[str], Node | None]
BuildQuery = Callable[[exp.Expr, "Environment"], Node]


@dataclass(frozen=True)
class Relation:
    """A node, and what its columns are called in the query."""

    node: Node
    scope: Scope


@dataclass(frozen=True)
class Environment:
    """`query` plans a query; `held` are the subqueries in expressions, `outer` is the query around this one."""

    relations: Relations
    types: Types
    ctes: Mapping[str, Node]
    query: BuildQuery
    held: Held = field(default_factory=Held)
    outer: Outer | None = None

    def with_cte(self, name: str, node: Node) -> Environment:
        return replace(self, ctes={**self.ctes, name.lower(): node})

    def lookup(self, table: exp.Table) -> Node:
        """The plan of a CTE, view or table; CTEs shadow the others."""
        name = table.name.lower()
        node = self.ctes.get(name) or self.relations(name)
        if node is None:
            raise unknown("table or view", table.name, self._names(), table)
        return node

    def _names(self) -> Iterable[str]:
        # `relations` is a function; one that has `names` gets a did-you-mean.
        names = getattr(self.relations, "names", ())
        return [*self.ctes, *(names() if callable(names) else names)]

    def resolve(self, tree: exp.Expr, relation: Relation) -> str:
        """An expression over the columns of `relation`, as the plan holds it."""
        refuse_expression(tree)
        return generate(relation.scope.resolve(tree).unnest())

    def condition(self, tree: exp.Expr, relation: Relation, clause: str) -> list[str]:
        """The conjuncts of WHERE or ON, with placeholders for subqueries."""
        tree = cut(tree, self.held)
        refuse_expression(tree)
        for node in tree.walk():
            if functions.is_aggregate(node):
                message = f"aggregate {functions.name(node)}() cannot stand in {clause}"
                raise SqlError(message=message + ("; use HAVING" if clause == "WHERE" else ""), **place(node))
        text = self.resolve(tree, relation)
        if not has_placeholder(text):
            self.require_boolean(relation.node.columns, text, tree, clause)
        return conjuncts(text)

    def require_boolean(self, columns: Sequence[Column], text: str, origin: exp.Expr, clause: str) -> None:
        (found,) = self.types.of(columns, [text], [origin])
        if found not in ("boolean", "void"):
            raise SqlError(message=f"{clause} needs a condition, not a value of type {found}", **place(origin))


