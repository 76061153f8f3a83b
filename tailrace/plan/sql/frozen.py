"""The text of a view's query in a form that means the same after its tables gained columns."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from sqlglot import exp

from tailrace.plan.sql.naming import name_sql


def mentions(query: exp.Expr, names: Sequence[str]) -> bool:
    """Whether the result may depend on columns of these names: it names one, has a star, or joins by equal names."""
    lower = {n.lower() for n in names}
    if any(isinstance(node, exp.Join) and node.args.get("method") == "NATURAL" for node in query.walk()):
        return True
    if any(not _is_count(star) for star in query.find_all(exp.Star)):
        return True
    return any(identifier.name.lower() in lower for identifier in query.find_all(exp.Identifier))


def _is_count(star: exp.Star) -> bool:
    return isinstance(star.parent, exp.Anonymous | exp.Count) and star.parent.name.lower() in ("count", "")


def freeze(sql: str, query: exp.Expr, seen: Mapping[str, Sequence[str]], added: Mapping[str, Sequence[str]]) -> str:
    """The text of a query that sees, of each table, only the columns `seen`, though the table also has those `added`.

    If the query may depend on added columns, a WITH clause hides them.
    """
    affected = [table for table, names in added.items() if names and mentions(query, names)]
    if not affected:
        return sql
    clauses = [
        f"{name_sql(table)} AS (SELECT {', '.join(map(name_sql, seen[table]))} FROM {name_sql(table)})"
        for table in sorted(affected)
    ]
    return f"WITH {', '.join(clauses)} SELECT * FROM ({sql})"
