"""Queries that are recomputed as they stand: anything Spark runs whose answer the tables alone decide."""

from __future__ import annotations

from collections.abc import Collection, Sequence

from sqlglot import exp

from tailrace import types
from tailrace.errors import SqlError, UnknownName, Unsupported
from tailrace.plan.sql import functions
from tailrace.plan.sql.dialect import location
from tailrace.types import Column


def relations(query: exp.Expr, known: Collection[str]) -> list[str]:
    """The tables and views a query reads; `UnknownName` for what is neither these nor a CTE of the query."""
    ctes = {c.alias.lower() for c in query.find_all(exp.CTE)}
    found: list[str] = []
    for table in query.find_all(exp.Table):
        name = table.name.lower()
        if not isinstance(table.this, exp.Identifier):
            continue  # a table function
        if table.args.get("db"):
            reason = "a store is one database; leave the part before the dot out"
            raise Unsupported(construct="a qualified name", reason=reason, **location(table))
        if name in known:
            found.append(name)
        elif name not in ctes:
            raise UnknownName(kind="table or view", name=table.name, **location(table))
    return list(dict.fromkeys(found))


def require_deterministic(query: exp.Expr, columns: Collection[str]) -> None:
    """`Unsupported` names what would let two recomputations over the same tables differ.

    `columns` are the names of all columns of the tables and views that are read.
    """
    for node in query.walk(bfs=False):
        word = functions.name(node)
        if word is not None and not (word in functions.ORDER_DEPENDENT and _over_an_order(node)):
            functions.require_deterministic_call(node, word)
        if isinstance(node, exp.TableSample):
            raise Unsupported(construct="TABLESAMPLE", reason="it draws other rows each time", **location(node))
        if isinstance(node, exp.Query) and node.args.get("limit") and not node.args.get("order"):
            reason = "which rows stay is not decided; add ORDER BY columns that decide it"
            raise Unsupported(construct="LIMIT without ORDER BY", reason=reason, **location(node.args["limit"]))
        bare = isinstance(node, exp.Column) and len(node.parts) == 1 and node.name.lower() in functions.BARE
        if bare and node.name.lower() not in columns:
            raise functions.nondeterministic(node.name.lower(), node)


def _over_an_order(node: exp.Expr) -> bool:
    """Whether a call is a window function over rows in a given order."""
    parent = functions.whole_call(node).parent
    return isinstance(parent, exp.Window) and bool(parent.args.get("order"))


def require_storable(columns: Sequence[Column]) -> None:
    """A view's columns have names of their own and types that the store holds."""
    seen: set[str] = set()
    for name, kind in columns:
        if name.lower() in seen:
            raise SqlError(message=f"two columns of the view are called {name!r}; give one an alias with AS")
        if name.lower() == "_weight":
            raise SqlError(message="a column cannot be named '_weight': Tailrace needs the name")
        if "void" in kind:
            raise SqlError(message=f"column {name!r} has no type; write CAST(NULL AS ...)")
        types.arrow(kind)
        seen.add(name.lower())


def recomputed_place(columns: Sequence[Column], key: tuple[int, ...] | None) -> tuple[int, ...]:
    """Positions by which a recomputed view is sharded.

    Never by a float: computed again it may differ in its last bits, and an epoch that is done again would look for
    the row on another shard.
    """
    candidates = range(len(columns)) if key is None else key
    return tuple(p for p in candidates if types.is_scalar(columns[p].type) and not types.is_float(columns[p].type))
