"""Rewrites a query so that its subqueries read columns of the query directly around them only, as Spark requires.

Which query a column belongs to is known when its name is resolved, so the query is planned for this. `plan/sql/levels`
then changes the tree by one level, and so on until no reference goes further.
"""

from __future__ import annotations

from sqlglot import exp

from tailrace.errors import SqlError
from tailrace.plan.build.context import Relations
from tailrace.plan.build.select import build_view
from tailrace.plan.sql.levels import OuterReference, free_name, has_deep_subqueries, number_columns, shorten
from tailrace.plan.typing import Typer, Types

# Each step adds a relation to the query. More steps than this are needed by no query that a person reads.
_STEPS = 32


def one_level(query: exp.Expr, relations: Relations, typer: Typer | Types) -> exp.Expr:
    """The query with references of one level; the same object if it has no others, or cannot be planned at all.

    Raises `Unsupported` if a reference cannot be rewritten.
    """
    if not has_deep_subqueries(query):
        return query
    beginning = free_name(query)
    for step in range(1, _STEPS):
        references: list[OuterReference] = []
        number_columns(query)
        try:
            build_view(query, relations, typer, references)
        except SqlError:
            if not references:
                return query
        shortened = shorten(query, references, f"{beginning}{step}")
        if shortened is None:
            return query
        query = shortened
    raise SqlError(message="the query is nested too deeply")
