"""The state of the builder while it plans a query: visible tables, views and CTEs, types, and the outer query."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace

from sqlglot import exp

from tailrace.errors import SqlError
from tailrace.plan.build.impossible_literals import refuse_impossible_literals
from tailrace.plan.build.placeholders import Subqueries, has_placeholder, insert_placeholders
from tailrace.plan.build.scope import Scope
from tailrace.plan.build.time_conditions import admit_time, require_times
from tailrace.plan.expressions import conjuncts
from tailrace.plan.nodes import Node
from tailrace.plan.outer import Outer
from tailrace.plan.sql import functions
from tailrace.plan.sql.dialect import generate, location
from tailrace.plan.sql.levels import OuterReference
from tailrace.plan.sql.refuse import refuse_expression, unknown
from tailrace.plan.typing import Types
from tailrace.types import Column

Relations = Callable[[str], Node | None]
BuildQuery = Callable[[exp.Expr, "Environment"], Node]


@dataclass(frozen=True)
class Relation:
    """A node and the names of its columns in the query."""

    node: Node
    scope: Scope


@dataclass(frozen=True)
class Environment:
    """Lookups for planning one query.

    `query` plans a nested query. `subqueries` holds those that placeholders stand for. `outer` is the query
    around this one. `noted` collects the references of subqueries to the queries around them, if it is a list.
    """

    relations: Relations
    types: Types
    ctes: Mapping[str, Node]
    query: BuildQuery
    subqueries: Subqueries = field(default_factory=Subqueries)
    outer: Outer | None = None
    noted: list[OuterReference] | None = None

    def with_cte(self, name: str, node: Node) -> Environment:
        return replace(self, ctes={**self.ctes, name.lower(): node})

    def lookup(self, table: exp.Table) -> Node:
        """The plan of a CTE, view or table. A CTE shadows a view or table of the same name."""
        name = table.name.lower()
        node = self.ctes.get(name) or self.relations(name)
        if node is None:
            raise unknown("table or view", table.name, self._known_names(), table)
        return node

    def _known_names(self) -> Iterable[str]:
        # `relations` is any callable. If it also has `names`, errors suggest a similar name.
        names = getattr(self.relations, "names", ())
        return [*self.ctes, *(names() if callable(names) else names)]

    def resolve(self, tree: exp.Expr, relation: Relation) -> str:
        """The text of an expression with column references replaced by positions in `relation` (`_0`, `_1`, ...)."""
        return generate(self._resolved(tree, relation))

    def _resolved(self, tree: exp.Expr, relation: Relation) -> exp.Expr:
        refuse_expression(tree)
        return relation.scope.resolve(tree).unnest()

    def condition(self, tree: exp.Expr, relation: Relation, clause: str) -> list[str]:
        """The resolved conjuncts of a condition, with placeholders for subqueries."""
        tree = admit_time(insert_placeholders(tree, self.subqueries))
        refuse_expression(tree)
        for node in tree.walk():
            if functions.is_aggregate(node):
                message = f"aggregate {functions.name(node)}() is not allowed in {clause}"
                raise SqlError(message=message + ("; use HAVING" if clause == "WHERE" else ""), **location(node))
        resolved = self._resolved(tree, relation)
        refuse_impossible_literals(resolved, relation.node.columns)
        text = generate(resolved)
        if not has_placeholder(text):
            self.require_boolean(relation.node.columns, text, tree, clause)
        require_times(relation.node.columns, conjuncts(text), tree, self.types)
        return conjuncts(text)

    def require_boolean(self, columns: Sequence[Column], text: str, origin: exp.Expr, clause: str) -> None:
        (type_name,) = self.types.of(columns, [text], [origin])
        if type_name not in ("boolean", "void"):
            raise SqlError(message=f"{clause} needs a condition, not a value of type {type_name}", **location(origin))
