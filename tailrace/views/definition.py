"""What a view is, and how its definition is written down."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import Any

from tailrace.plan.arrangements import fingerprints
from tailrace.plan.nodes import Key, Node, Order, from_json, to_json
from tailrace.plan.refresh import Refresh
from tailrace.store.base import TableDef
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
    def fingerprints(self) -> list[str]:
        """Of all states that it needs beside its own rows."""
        return [] if self.plan is None else fingerprints(self.plan)


def table_from_json(document: Any) -> TableDef:
    columns = tuple(Column(*c) for c in document["columns"])
    return TableDef(document["id"], document["name"], columns, tuple(document["key"]))


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
    key = document["key"]
    return ViewDef(
        document["name"],
        document["sql"],
        from_json(document["root"]),
        tuple(Column(*c) for c in document["columns"]),
        None if key is None else tuple(key),
        tuple(document["place"]),
        tuple(document["uses"]),
        frozenset(document["tables"]),
        document["refresh"],
        document["reason"],
        from_json(document["order"]),
        document["state"],
        document["since"],
    )
