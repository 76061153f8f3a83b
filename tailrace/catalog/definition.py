"""What a view is, and how its definition is written down."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import Any

from tailrace import types
from tailrace.codec.schema import TableDef
from tailrace.errors import Corrupt, Unsupported
from tailrace.plan.nodes import Key, Node, Order, PlanError, from_json, to_json, walk
from tailrace.plan.physical.arrangements import fingerprints
from tailrace.plan.physical.sizing import ViewSink
from tailrace.plan.policy import Refresh
from tailrace.store import shapes
from tailrace.types import Column


@dataclass(frozen=True)
class ViewDef:
    """A view: what it says, how it is kept, and in which order it is read. `state` is 0 until it has a number.

    `root` is the plan of its query, None if only Spark can run it; `reason` says why it must be recomputed then.
    It can be read at epochs from `since` on.
    """

    name: str
    sql: str
    root: Node | None
    columns: tuple[Column, ...]
    key: Key | None
    place: tuple[int, ...]
    uses: tuple[str, ...]
    tables: frozenset[int]
    refresh: Refresh
    reason: str = ""
    order: Order = ()
    state: int = 0
    since: int = 0

    @cached_property
    def key_names(self) -> list[str] | None:
        return None if self.key is None else [self.columns[p].name for p in self.key]

    @property
    def plan(self) -> Node | None:
        """The plan by which it is maintained; None if it is recomputed at each epoch."""
        return None if self.refresh == "full" else self.root

    @cached_property
    def sink(self) -> ViewSink | None:
        """The view as epochs see it; None if it is recomputed at each."""
        return None if self.plan is None else ViewSink(self.state, self.plan, self.place)

    @cached_property
    def fingerprints(self) -> list[str]:
        """Of all states that it needs beside its own rows."""
        return [] if self.plan is None else fingerprints(self.plan)


def table_from_json(document: Any) -> TableDef:
    """The table of a document that has its shape (`store/documents.py`); `Corrupt` if it contradicts itself."""
    where = f"table {document['name']!r}"
    columns = _columns(where, document["columns"])
    _require(where, bool(document["key"]) and {*document["key"]} <= {c.name for c in columns}, "its key")
    return TableDef(document["id"], document["name"], columns, tuple(document["key"]))


def _columns(where: str, listed: list[list[str]]) -> tuple[Column, ...]:
    columns = tuple(Column(*c) for c in listed)
    try:
        schema = types.schema(columns)
    except (Unsupported, ValueError, RecursionError) as error:
        raise Corrupt(where=where, reason=f"its columns cannot be ({error})") from None
    _require(where, len({*schema.names}) == len(columns), "its columns")
    return columns


def _require(where: str, condition: bool, what: str) -> None:
    if not condition:
        raise Corrupt(where=where, reason=f"{what} cannot be")


def _plan(where: str, document: Any) -> Node | None:
    try:
        found = from_json(document)
        shapes.checked(where, found, Node | None)
        for node in walk(found) if found is not None else ():
            _ = node.columns, node.key  # what they are made of may be missing
    except (KeyError, ValueError, TypeError, AttributeError, IndexError, RecursionError, PlanError) as error:
        raise Corrupt(where=where, reason=f"its plan cannot be ({type(error).__name__}: {error})") from None
    return found  # type: ignore[no-any-return]


def view_to_json(view: ViewDef) -> dict[str, Any]:
    return {
        "name": view.name,
        "sql": view.sql,
        "root": to_json(view.root),
        "columns": [list(c) for c in view.columns],
        "key": None if view.key is None else list(view.key),
        "place": list(view.place),
        "uses": list(view.uses),
        "tables": sorted(view.tables),
        "refresh": view.refresh,
        "reason": view.reason,
        "order": to_json(view.order),
        "state": view.state,
        "since": view.since,
    }


def view_from_json(document: Any) -> ViewDef:
    """The view of a document that has its shape; `Corrupt` if it contradicts itself."""
    where, key = f"view {document['name']!r}", document["key"]
    root, columns = _plan(where, document["root"]), _columns(where, document["columns"])
    kinds = [c.type for c in columns]
    _require(where, root is None or [c.type for c in root.columns] == kinds, "its plan")
    positions = [*(key or ()), *document["place"], *(p for p, _, _ in document["order"])]
    _require(where, all(p < len(columns) for p in positions), "its key, its place or its order")
    return ViewDef(
        document["name"],
        document["sql"],
        root,
        columns,
        None if key is None else tuple(key),
        tuple(document["place"]),
        tuple(document["uses"]),
        frozenset(document["tables"]),
        document["refresh"],
        document["reason"],
        tuple((position, ascending, nulls_first) for position, ascending, nulls_first in document["order"]),
        document["state"],
        document["since"],
    )
