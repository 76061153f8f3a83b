"""Checks queries that Spark runs unchanged (only the tables may determine the result), and the columns of all views."""

from __future__ import annotations

from collections.abc import Collection, Sequence

from sqlglot import exp

from tailrace import types
from tailrace.errors import SqlError, Unsupported
from tailrace.plan.sql import functions
from tailrace.plan.sql.dialect import location
from tailrace.plan.sql.refuse import NEW_SAMPLE, unknown
from tailrace.types import Column


def relations(query: exp.Expr, known: Collection[str]) -> list[str]:
    """The tables and views that a query reads; raises `UnknownName` for a name neither in `known` nor a CTE."""
    ctes = {c.alias.lower() for c in query.find_all(exp.CTE)}
    names: list[str] = []
    for table in query.find_all(exp.Table):
        name = table.name.lower()
        if not isinstance(table.this, exp.Identifier):
            continue  # a table function
        if table.args.get("db"):
            reason = "a store is one database; remove the part before the dot"
            raise Unsupported(construct="a qualified name", reason=reason, **location(table))
        if name in known:
            names.append(name)
        elif name not in ctes:
            raise unknown("table or view", table.name, known, table)
    return list(dict.fromkeys(names))


def require_deterministic(query: exp.Expr, columns: Collection[str]) -> None:
    """Raises `Unsupported` for a construct that could make two recomputations over the same tables differ.

    `columns` are the names of all columns of the tables and views that the query reads.
    """
    for node in query.walk(bfs=False):
        word = functions.name(node)
        if word is not None and not (word in functions.ORDER_DEPENDENT and _is_ordered_window(node)):
            functions.require_deterministic_call(node, word)
        if isinstance(node, exp.TableSample):
            raise Unsupported(construct="TABLESAMPLE", reason=NEW_SAMPLE, **location(node))
        if isinstance(node, exp.Query) and node.args.get("limit") and not node.args.get("order"):
            reason = "it may take any rows; add ORDER BY with columns that identify a row"
            raise Unsupported(construct="LIMIT without ORDER BY", reason=reason, **location(node.args["limit"]))
        if isinstance(node, exp.Column) and len(node.parts) == 1:
            name = node.name.lower()
            if name in functions.PARENTHESES_OPTIONAL and name not in columns:
                raise functions.nondeterministic(name, node)


def _is_ordered_window(node: exp.Expr) -> bool:
    """Whether a call is a window function with ORDER BY."""
    parent = functions.whole_call(node).parent
    return isinstance(parent, exp.Window) and bool(parent.args.get("order"))


def require_storable(columns: Sequence[Column], query: exp.Expr | None = None) -> None:
    """Raises `SqlError` unless column names are unique and the store can hold all types.

    With `query`, the query that has these columns, the error says where in the text the column is.
    """
    seen: set[str] = set()
    for index, (name, type_name) in enumerate(columns):
        where = {} if query is None else _item_location(query, index, len(columns))
        if name.lower() in seen:
            raise SqlError(message=f"two columns of the view are named {name!r}; give one an alias with AS", **where)
        if name.lower() == "_weight":
            raise SqlError(message="the column name '_weight' is reserved; choose another", **where)
        if "void" in type_name:
            raise SqlError(message=f"column {name!r} has no type; write CAST(NULL AS ...)", **where)
        types.arrow(type_name)
        seen.add(name.lower())


def _item_location(query: exp.Expr, index: int, count: int) -> dict[str, int]:
    """The location of a select item; that of the query if stars make items and columns differ."""
    items = query.expressions if isinstance(query, exp.Select) else []
    return location(items[index] if len(items) == count else query)


def recomputed_place(columns: Sequence[Column], key: tuple[int, ...] | None) -> tuple[int, ...]:
    """Positions of the columns by which a recomputed view is sharded.

    Never floats: a recomputed float may differ in its last bits, so a retried epoch would look for the row in another
    shard.
    """
    candidates = range(len(columns)) if key is None else key
    return tuple(p for p in candidates if types.is_scalar(columns[p].type) and not types.is_float(columns[p].type))
