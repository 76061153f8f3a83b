"""The catalog: tables, views and the states behind them, as documents of the store.

    catalog          version, the next free number
    table:<name>     columns and key
    view:<name>      its SQL, plan, columns, key, and the number of its state
    state:<print>    the number of the arrangement with that fingerprint

Every change is one transaction and raises the version, by which other processes see that there is one.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any

from tailrace.errors import InUse, UnknownName
from tailrace.plan.arrangements import fingerprints
from tailrace.plan.nodes import Key, Node, from_json, to_json
from tailrace.plan.refresh import Refresh
from tailrace.source.queries import Query
from tailrace.store.base import Store, TableDef
from tailrace.types import Column


@dataclass(frozen=True)
class ViewDef:
    """A view: what it says, and how it is kept. `state` is 0 until it has a number.

    `root` is the plan of its query, None if only Spark can run it; `reason` says why it must be recomputed then.
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
    state: int = 0

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

    def query(self, view: ViewDef) -> Query:
        """The view's SQL, down to the tables."""
        reads: list[tuple[str, TableDef | Query]] = []
        for name in view.uses:
            used = self.views.get(name)
            reads.append((name, self.tables[name] if used is None else self.query(used)))
        return Query(view.sql, tuple(reads))

    def draft_view(self, view: ViewDef) -> Draft:
        """Numbers for a new view and for the states it is the first to need. `building` guards them until added."""
        current = self._current()
        number = current._next
        fresh: dict[str, int] = {}
        for print_ in view.fingerprints:
            if print_ not in current._states:
                number += 1
                fresh[print_] = number
        numbered = replace(view, state=current._next)
        self._change({"building": [numbered.state, *fresh.values()]}, number + 1)
        return Draft(numbered, fresh)

    def add_view(self, draft: Draft) -> None:
        states = {f"state:{p}": n for p, n in draft.fresh.items()}
        self._change({f"view:{draft.view.name}": _document(draft.view), "building": None, **states})

    def drop_view(self, name: str) -> None:
        """Forget a view and the states that only it needed, which become leftovers."""
        view = self.view(name)
        self._refuse_if_used(view.name)
        others = {p for v in self.views.values() if v.name != view.name for p in v.fingerprints}
        gone = {p: n for p, n in self.states.items() if p in view.fingerprints and p not in others}
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


def _document(view: ViewDef) -> dict[str, Any]:
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
        "state": view.state,
    }


def _view(document: Any) -> ViewDef:
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
        document["state"],
    )
