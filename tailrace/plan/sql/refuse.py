"""Refuses valid SQL that Tailrace cannot maintain yet. Each error has the construct's name and location.

To support a construct, remove its line from a table here and build a node for it in `build`.
"""

from __future__ import annotations

import difflib
from collections.abc import Callable, Iterable

from sqlglot import exp

from tailrace.errors import UnknownName, Unsupported
from tailrace.plan.sql import functions
from tailrace.plan.sql.dialect import location

NOT_YET = "it cannot be maintained incrementally yet"
NOT_IN_SPARK = "Spark SQL does not have it"
NEW_SAMPLE = "it takes different rows each time"
WINDOW_IN_SUBQUERY = "compute it in a subquery, and use its column here"
_READS_ONLY = "a view only reads"
_NO_PHYSICAL_ORDER = "a view has no physical order; use ORDER BY"
_IN_FROM = "compute it in the select list of a subquery in FROM, and use its column here"


def unsupported(construct: str, node: exp.Expr, reason: str = NOT_YET) -> Unsupported:
    return Unsupported(construct=construct, reason=reason, **location(node))


def unknown(kind: str, text: str, known: Iterable[str], node: exp.Expr) -> UnknownName:
    """The error for a name that does not exist. It suggests the most similar known name."""
    by_lower = {k.lower(): k for k in known}
    close = difflib.get_close_matches(text.lower().split(".")[-1], by_lower, n=1)
    hint = f"; did you mean {by_lower[close[0]]!r}?" if close else ""
    return UnknownName(kind=kind, name=text, hint=hint, **location(node))


# (construct, reason) of each refused clause of a query, by sqlglot's argument name.
# The error names the first one that the query has.
_CLAUSES: dict[str, tuple[str, str]] = {
    "sort": ("SORT BY", _NO_PHYSICAL_ORDER),
    "cluster": ("CLUSTER BY", _NO_PHYSICAL_ORDER),
    "distribute": ("DISTRIBUTE BY", _NO_PHYSICAL_ORDER),
    "sample": ("TABLESAMPLE", NEW_SAMPLE),
    "match": ("MATCH_RECOGNIZE", NOT_IN_SPARK),
    "connect": ("CONNECT BY", NOT_IN_SPARK),
    "prewhere": ("PREWHERE", NOT_IN_SPARK),
    "locks": ("FOR UPDATE", _READS_ONLY),
    "into": ("INTO", _READS_ONLY),
    "version": ("VERSION AS OF", "a view reads the current rows of its tables"),
    "changes": ("CHANGES", NOT_IN_SPARK),
}


def refuse_clauses(query: exp.Expr) -> None:
    """Refuses unsupported clauses of a SELECT, set operation, subquery or table."""
    for argument, (construct, reason) in _CLAUSES.items():
        clause = query.args.get(argument)
        if not clause:
            continue
        first = clause[0] if isinstance(clause, list) else clause
        # A clause without position is reported at its query.
        raise unsupported(construct, first if location(first) else query, reason)


def refuse_grouping(group: exp.Expr) -> None:
    """Refuses GROUP BY clauses of other dialects."""
    if group.args.get("totals"):
        raise unsupported("WITH TOTALS", group, NOT_IN_SPARK)


def refuse_distinct_on(select: exp.Select) -> None:
    distinct = select.args.get("distinct")
    if distinct is not None and distinct.args.get("on"):
        raise unsupported("DISTINCT ON", distinct, f"{NOT_IN_SPARK}; use row_number() with QUALIFY")


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
        refusal = _subquery(node) or _special_function(node) or _parameter(node)
        if refusal is not None:
            construct, reason = refusal
            raise unsupported(construct, node, reason)


def refuse_window(node: exp.Expr) -> None:
    """Refuses a window function outside the select list and QUALIFY, or without OVER."""
    if isinstance(node, exp.Window):
        raise unsupported("a window function (OVER) outside the select list and QUALIFY", node, WINDOW_IN_SUBQUERY)
    if functions.name(node) in functions.WINDOW_ONLY:
        raise unsupported(f"window function {functions.name(node)}() without OVER", node, "add OVER (ORDER BY ...)")


def _subquery(node: exp.Expr) -> tuple[str, str] | None:
    """(construct, reason) if the node is a refused subquery."""
    if isinstance(node, exp.Exists):
        return "EXISTS (subquery) here", _IN_FROM
    if isinstance(node, exp.In) and node.args.get("query"):
        return "IN (subquery) here", _IN_FROM
    if isinstance(node, exp.Any | exp.All) and node.find(exp.Select):
        alternative = "EXISTS" if isinstance(node, exp.Any) else "NOT EXISTS"
        return f"{node.key.upper()} (subquery) with this operator", f"{NOT_IN_SPARK}; write {alternative}"
    return ("a scalar subquery here", _IN_FROM) if isinstance(node, exp.Query) else None


def _special_function(node: exp.Expr) -> tuple[str, str] | None:
    """(construct, reason) if the node calls a generator or a time window."""
    word = functions.name(node)
    if word in functions.GENERATORS:
        return f"{word}() inside an expression", "write it alone in the select list, or in LATERAL VIEW"
    if word in functions.TIME_WINDOWS:
        return f"time window {word}()", NOT_YET
    return None


def _parameter(node: exp.Expr) -> tuple[str, str] | None:
    is_parameter = isinstance(node, exp.Placeholder | exp.Parameter)
    return ("a parameter marker", "write the value into the statement") if is_parameter else None


def refuse_by_name(query: exp.Expr) -> None:
    """Refuses set operations that match columns by name, which Spark SQL does not have."""
    if query.args.get("by_name"):
        raise unsupported(f"{query.key.upper()} BY NAME", query, "Spark SQL matches columns by position only")


def refuse_recursive(with_: exp.Expr) -> None:
    if with_.args.get("recursive"):
        raise unsupported("WITH RECURSIVE", with_)


def unsupported_relation(node: exp.Expr) -> Unsupported:
    """The error for an unsupported item of FROM."""
    if isinstance(node, exp.Unnest):
        return unsupported("table function unnest()", node, f"{NOT_IN_SPARK}; use explode()")
    for kind, describe in _RELATIONS:
        if isinstance(node, kind):
            return unsupported(describe(node), node)
    return unsupported(f"{node.key.upper()} in FROM", node)


def _table_function(node: exp.Expr) -> str:
    return f"table function {functions.name(node.this)}()"


_RELATIONS: tuple[tuple[type[exp.Expr], Callable[[exp.Expr], str]], ...] = (
    (exp.Lateral, _table_function),
    (exp.Table, _table_function),
    (exp.TableFromRows, lambda _: "a table function"),
)
