"""The catalog: tables, views and the states behind them, as documents of the store.

    catalog          version, the next free number
    table:<name>     columns and key
    view:<name>      its SQL, plan, columns, key, order, and the number of its state
    state:<print>    the number of the arrangement with that fingerprint

Every change is one transaction and raises the version, by which other processes see that there is one.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from functools import cached_property
from typing import Any

from tailrace.errors import InUse, UnknownName
from tailrace.plan.arrangements import fingerprints
from tailrace.plan.nodes import Node, Order, Scan, from_json, to_json, walk
from tailrace.store.base import Store, TableDef
from tailrace.types import Column


@dataclass(frozen=True)
class ViewDef:
    """A view: what it says, how it is kept, and in which order it is read."""

    name: str
    sql: str
    root: Node
    columns: tuple[Column, ...]
    place: tuple[int, ...]
    state: int
    uses: tuple[str, ...]
    order: Order = ()

    @property
    def key(self) -> tuple[int, ...] | None:
        return self.root.key

    @cached_property
    def key_names(self) -> list[str] | None:
        return None if self.key is None else [self.columns[p].name for p in self.key]

    @cached_property
    def tables(self) -> frozenset[int]:
        return frozenset(n.table_id for n in walk(self.root) if isinstance(n, Scan))


class Catalog:
    """The catalog as of its newest version, read again whenever that has changed."""

    def __init__(self, store: Store) -> None:
        self._store = store
        self._version = -1
        self._tables: dict[str, TableDef] = {}
        self._views: dict[str, ViewDef] = {}
        self._states: dict[str, int] = {}
        self._next = 1

    def _current(self) -> Catalog:
        head = self._store.document("catalog") or {"version": 0, "next": 1}
        if head["version"] != self._version:
            self._tables = {t.name: t for t in map(_table, self._store.documents("table:").values())}
            self._views = {v.name: v for v in map(_view, self._store.documents("view:").values())}
            self._states = {k[6:]: v for k, v in self._store.documents("state:").items()}
            self._version, self._next = head["version"], head["next"]
        return self

    @property
    def version(self) -> int:
        return self._current()._version

    @property
    def tables(self) -> dict[str, TableDef]:
        return self._current()._tables

    @property
    def views(self) -> dict[str, ViewDef]:
        return self._current()._views

    @property
    def states(self) -> dict[str, int]:
        return self._current()._states

    def table(self, name: str) -> TableDef:
        if name.lower() not in self.tables:
            raise UnknownName(kind="table", name=name, hint=self._near(name, self.tables))
        return self.tables[name.lower()]

    def view(self, name: str) -> ViewDef:
        if name.lower() not in self.views:
            raise UnknownName(kind="view", name=name, hint=self._near(name, self.views))
        return self.views[name.lower()]

    @staticmethod
    def _near(name: str, known: Iterable[str]) -> str:
        listed = ", ".join(sorted(known)[:8])
        return f" (there are: {listed})" if listed else " (there are none)"

    def dependants(self, name: str) -> list[str]:
        return sorted(v.name for v in self.views.values() if name in v.uses)

    def add_table(self, name: str, columns: tuple[Column, ...], key: tuple[str, ...]) -> TableDef:
        current = self._current()
        table = TableDef(current._next, name, columns, key)
        document = {"id": table.id, "name": name, "columns": [list(c) for c in columns], "key": list(key)}
        self._change({f"table:{name}": document}, current._next + 1)
        return table

    def drop_table(self, name: str) -> TableDef:
        table = self.table(name)
        self._refuse_if_used(table.name)
        self._change({f"table:{table.name}": None})
        return table

    def draft_view(
        self,
        name: str,
        sql: str,
        root: Node,
        columns: tuple[Column, ...],
        place: tuple[int, ...],
        uses: Iterable[str],
        order: Order,
    ) -> Draft:
        """Numbers for a new view and for the states it is the first to need. `building` guards them until added."""
        current = self._current()
        number = current._next
        fresh: dict[str, int] = {}
        for print_ in fingerprints(root):
            if print_ not in current._states and print_ not in fresh:
                number += 1
                fresh[print_] = number
        view = ViewDef(name, sql, root, columns, place, current._next, tuple(sorted(set(uses))), order)
        self._change({"building": [view.state, *fresh.values()]}, number + 1)
        return Draft(view, fresh)

    def add_view(self, draft: Draft) -> None:
        view = draft.view
        document = {
            "name": view.name,
            "sql": view.sql,
            "root": to_json(view.root),
            "columns": [list(c) for c in view.columns],
            "place": list(view.place),
            "state": view.state,
            "uses": list(view.uses),
            "order": to_json(view.order),
        }
        states = {f"state:{p}": n for p, n in draft.fresh.items()}
        self._change({f"view:{view.name}": document, "building": None, **states})

    def drop_view(self, name: str) -> None:
        """Forget a view and the states that only it needed, which become leftovers."""
        view = self.view(name)
        self._refuse_if_used(view.name)
        others = {p for v in self.views.values() if v.name != view.name for p in fingerprints(v.root)}
        gone = {p: n for p, n in self.states.items() if p in fingerprints(view.root) and p not in others}
        pending = [*(self._store.document("dropping") or []), view.state, *gone.values()]
        self._change({f"view:{view.name}": None, "dropping": pending, **{f"state:{p}": None for p in gone}})

    def leftovers(self) -> list[int]:
        """States of a build that did not finish and of drops that did not either."""
        return [*(self._store.document("building") or []), *(self._store.document("dropping") or [])]

    def clear_leftovers(self) -> None:
        self._store.change_documents({"building": None, "dropping": None})

    def _refuse_if_used(self, name: str) -> None:
        if users := self.dependants(name):
            raise InUse(name=name, users=", ".join(users))

    def _change(self, documents: dict[str, Any], following: int | None = None) -> None:
        current = self._current()
        head = {"version": current._version + 1, "next": following or current._next}
        self._store.change_documents({**documents, "catalog": head})


@dataclass(frozen=True)
class Draft:
    """A view about to be built, and the numbers of its new states by fingerprint."""

    view: ViewDef
    fresh: dict[str, int]


def _table(document: Any) -> TableDef:
    columns = tuple(Column(*c) for c in document["columns"])
    return TableDef(document["id"], document["name"], columns, tuple(document["key"]))


def _view(document: Any) -> ViewDef:
    return ViewDef(
        document["name"],
        document["sql"],
        from_json(document["root"]),
        tuple(Column(*c) for c in document["columns"]),
        tuple(document["place"]),
        document["state"],
        tuple(document["uses"]),
        from_json(document["order"]),
    )
