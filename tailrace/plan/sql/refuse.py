"""Refuses valid SQL that Tailrace cannot maintain yet. Each error has the construct's name and location.

To support a construct, remove its line from a table here and build a node for it in `build`.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator

from sqlglot import exp

from tailrace.errors import Unsupported
from tailrace.plan.sql import functions
from tailrace.plan.sql.dialect import location

NOT_YET = "not maintained incrementally yet"


def unsupported(construct: str, node: exp.Expr, reason: str = NOT_YET) -> Unsupported:
    return Unsupported(construct=construct, reason=reason, **location(node))


# Clauses of a query, by sqlglot's argument name. The error names the first one that the query has.
_CLAUSES: dict[str, str] = {
    "sort": "SORT BY",
    "cluster": "CLUSTER BY",
    "distribute": "DISTRIBUTE BY",
    "sample": "TABLESAMPLE",
    "match": "MATCH_RECOGNIZE",
    "connect": "CONNECT BY",
    "prewhere": "PREWHERE",
    "locks": "FOR UPDATE",
    "into": "INTO",
    "version": "VERSION AS OF",
    "changes": "CHANGES",
}


def refuse_clauses(query: exp.Expr) -> None:
    """Refuses unsupported clauses of a SELECT, set operation, subquery or table."""
    for argument, construct in _CLAUSES.items():
        clause = query.args.get(argument)
        if not clause:
            continue
        first = clause[0] if isinstance(clause, list) else clause
        # A clause without position is reported at its query.
        raise unsupported(construct, first if location(first) else query)


def refuse_grouping(group: exp.Expr) -> None:
    """Refuses GROUP BY clauses of other dialects."""
    if group.args.get("totals"):
        raise unsupported("WITH TOTALS", group)


def refuse_distinct_on(select: exp.Select) -> None:
    distinct = select.args.get("distinct")
    if distinct is not None and distinct.args.get("on"):
        raise unsupported("DISTINCT ON", distinct)


def refuse_distinct_order(call: exp.Expr, function: exp.Expr) -> None:
    """Refuses LISTAGG(DISTINCT x) WITHIN GROUP (ORDER BY x).

    Groups are recomputed with FILTER, and Spark cannot combine the two.
    """
    word = functions.name(function)
    distinct = any(isinstance(a, exp.Distinct) for a in function.expressions)
    if isinstance(call, exp.WithinGroup) and distinct and word in functions.STRING_LISTS:
        reason = "write array_join(sort_array(collect_set(...)), ...)"
        raise unsupported(f"{word}(DISTINCT ...) WITHIN GROUP", function, reason)


def refuse_expression(tree: exp.Expr) -> None:
    """Refuses an expression that does not depend only on one row or one group."""
    for node in tree.walk(bfs=False):
        refuse_window(node)
        construct = next((name for name in _refused_constructs(node) if name), None)
        if construct:
            raise unsupported(construct, node)


def refuse_window(node: exp.Expr) -> None:
    """Refuses a window function outside the select list and QUALIFY, or without OVER."""
    if isinstance(node, exp.Window):
        reason = "it is allowed in the select list and in QUALIFY; elsewhere, select it in a subquery"
        raise unsupported("window function (OVER) here", node, reason)
    if functions.name(node) in functions.WINDOW_ONLY:
        raise unsupported(f"window function {functions.name(node)}()", node, "it needs OVER (...)")


def _refused_constructs(node: exp.Expr) -> Iterator[str | None]:
    for check in (_subquery, _generator, _special_function, _parameter):
        yield check(node)


def _subquery(node: exp.Expr) -> str | None:
    if isinstance(node, exp.Exists):
        return "EXISTS (subquery)"
    if isinstance(node, exp.In) and node.args.get("query"):
        return "IN (subquery)"
    if isinstance(node, exp.Any | exp.All) and node.find(exp.Select):
        return f"{node.key.upper()} (subquery)"
    return "scalar subquery" if isinstance(node, exp.Query) else None


def _generator(node: exp.Expr) -> str | None:
    word = functions.name(node)
    return f"table-generating function {word}()" if word in functions.GENERATORS else None


def _special_function(node: exp.Expr) -> str | None:
    word = functions.name(node)
    if word in functions.TIME_WINDOWS:
        return f"time window {word}()"
    return None


def _parameter(node: exp.Expr) -> str | None:
    return "a parameter marker" if isinstance(node, exp.Placeholder | exp.Parameter) else None


def refuse_by_name(query: exp.Expr) -> None:
    """Refuses set operations that match columns by name, which Spark SQL does not have."""
    if query.args.get("by_name"):
        raise unsupported(f"{query.key.upper()} BY NAME", query, "Spark SQL matches columns by position only")


def refuse_recursive(with_: exp.Expr) -> None:
    if with_.args.get("recursive"):
        raise unsupported("WITH RECURSIVE", with_)


def unsupported_relation(node: exp.Expr) -> Unsupported:
    """The error for an unsupported item of FROM."""
    for kind, describe in _RELATIONS:
        if isinstance(node, kind):
            return unsupported(describe(node), node)
    return unsupported(f"{node.key.upper()} in FROM", node)


def _table_function(node: exp.Expr) -> str:
    word = functions.name(node.this)
    return f"table function {word}()" if word else "LATERAL subquery"


_RELATIONS: tuple[tuple[type[exp.Expr], Callable[[exp.Expr], str]], ...] = (
    (exp.Lateral, _table_function),
    (exp.Unnest, lambda _: "table function unnest()"),
    (exp.Table, _table_function),
    (exp.TableFromRows, lambda _: "table function"),
)
