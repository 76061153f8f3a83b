"""The catalog: tables, views and the states behind them, as documents of the store.

    catalog          version, the next free number
    table:<name>     columns and key
    view:<name>      its SQL, plan, columns, key, order, and the number of its state
    state:<print>    the number of the arrangement with that fingerprint
    building         states that a build in one go has filled so far
    build:<name>     views that are built chunk by chunk, and the numbers of their states (`catalog/construction.py`)
    dropping         states that nobody needs any more, each with the epoch since when
    emptying         dropped tables whose rows are still there

Every change is one transaction and raises the version, by which other processes see that there is one.
"""

from __future__ import annotations

import threading
from collections import ChainMap
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, TypeVar

from msgspec import structs

from tailrace import faults
from tailrace.catalog import construction
from tailrace.catalog.construction import BUILDS, DROPPING, LOADED, BuildDocument, Owner
from tailrace.catalog.definition import TABLES, VIEWS, ViewDef, table_document, table_of, view_document, view_of
from tailrace.codec.schema import TableDef
from tailrace.errors import InUse, UnknownName
from tailrace.plan.binding import Query
from tailrace.store.base import Store
from tailrace.store.commits import committed
from tailrace.store.documents import Count, Document, Kind, Number
from tailrace.store.leases import is_leased
from tailrace.store.parts import Bounds
from tailrace.store.pins import oldest_pinned
from tailrace.types import Column

__all__ = ["Catalog", "Relations", "UnpublishedViews", "ViewBuild", "ViewDef"]

D = TypeVar("D")
T = TypeVar("T")


class Head(Document, frozen=True):
    """The catalog's version, and the next free number of a table or state."""

    version: Count
    next: Number


CATALOG: Kind[Head] = Kind("catalog", Head)
STATES: Kind[int] = Kind("state:", Number)
BUILDING: Kind[tuple[int, ...]] = Kind("building", tuple[Number, ...])
EMPTYING: Kind[tuple[int, ...]] = Kind("emptying", tuple[Number, ...])


@dataclass(frozen=True)
class Relations:
    """Tables and views of one moment, by name."""

    tables: Mapping[str, TableDef]
    views: Mapping[str, ViewDef]

    def table(self, name: str) -> TableDef:
        if name.lower() not in self.tables:
            raise UnknownName(kind="table", name=name, hint=self._near(self.tables))
        return self.tables[name.lower()]

    def view(self, name: str) -> ViewDef:
        if name.lower() not in self.views:
            raise UnknownName(kind="view", name=name, hint=self._near(self.views))
        return self.views[name.lower()]

    @staticmethod
    def _near(known: Iterable[str]) -> str:
        listed = ", ".join(sorted(known)[:8])
        return f" (there are: {listed})" if listed else " (there are none)"


@dataclass(frozen=True)
class UnpublishedViews:
    """Views about to be built, and the numbers of states that are filled with them, by fingerprint."""

    views: tuple[ViewDef, ...]
    states: dict[str, int]

    @property
    def numbers(self) -> list[int]:
        return [*(v.state for v in self.views), *self.states.values()]


@dataclass(frozen=True)
class ViewBuild:
    """A build chunk by chunk: what, whether it takes the place of views there are, who is at it, and how far."""

    unpublished: UnpublishedViews
    tables: tuple[int, ...]
    total: int
    replaces: bool
    owned: bool
    pid: int | None
    failed: str | None
    loaded: Bounds
    rows: int
    failures: tuple[str, ...]

    @property
    def name(self) -> str:
        return self.unpublished.views[0].name

    @property
    def number(self) -> int:
        """Of this build and no other of the same name."""
        return self.unpublished.views[0].state


class Catalog:
    """The catalog as of its newest version, read again whenever that has changed."""

    def __init__(self, store: Store) -> None:
        self._store = store
        self._version = -1
        self._tables: dict[str, TableDef] = {}
        self._views: dict[str, ViewDef] = {}
        self._states: dict[str, int] = {}
        self._next = 1
        self._lock = threading.RLock()

    def _current(self) -> Catalog:
        with self._lock:
            self._read()
        return self

    def _read(self) -> None:
        head = self._store.document(CATALOG) or Head(0, 1)
        if head.version != self._version:
            self._tables = {t.name: t for t in map(table_of, self._store.documents(TABLES).values())}
            self._views = {v.name: v for v in map(view_of, self._store.documents(VIEWS).values())}
            self._states = self._store.documents(STATES)
            self._version, self._next = head.version, head.next

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

    @property
    def relations(self) -> Relations:
        with self._lock:
            self._read()
            return Relations(self._tables, self._views)

    def table(self, name: str) -> TableDef:
        return self.relations.table(name)

    def view(self, name: str) -> ViewDef:
        return self.relations.view(name)

    def require(self, table: TableDef) -> None:
        """Refuse a table that was dropped, even if another has its name now: its rows are gone."""
        if self.tables.get(table.name) != table:
            raise UnknownName(kind="table", name=table.name, hint=" any more: it was dropped")

    def dependants(self, name: str) -> list[str]:
        coming = [v for making in self.builds.values() for v in making.unpublished.views]
        return sorted({v.name for v in (*self.views.values(), *coming) if name in v.uses})

    def add_table(self, name: str, columns: tuple[Column, ...], key: tuple[str, ...]) -> TableDef:
        current = self._current()
        table = TableDef(current._next, name, columns, key)
        self._change({TABLES.at(name): table_document(table)}, current._next + 1)
        return table

    def drop_table(self, name: str) -> None:
        """Forget a table; its rows become leftovers."""
        table = self.table(name)
        self._refuse_if_used(table.name)
        self._change({TABLES.at(table.name): None, EMPTYING.name: [*(self._store.document(EMPTYING) or ()), table.id]})

    def query(self, view: ViewDef, others: Sequence[ViewDef] = ()) -> Query:
        """The view's SQL, down to the tables; views in `others` go before those of the catalog."""
        known = ChainMap({v.name: v for v in others}, self.views)
        reads: list[tuple[str, TableDef | Query]] = []
        for name in view.uses:
            reads.append((name, self.query(known[name], others) if name in known else self.tables[name]))
        return Query(view.sql, tuple(reads))

    # building

    def reserve_states(self, views: Sequence[ViewDef]) -> UnpublishedViews:
        """Numbers for new views and for the states they are the first to need; guarded until they are published."""
        draft, following = self._numbered(views, self.states)
        self._change({BUILDING.name: draft.numbers}, following)
        return draft

    def begin(self, views: Sequence[ViewDef], replaces: bool, tables: Sequence[int], total: int) -> int:
        """Write down that views are being built chunk by chunk, with states of their own; the build's number."""
        draft, following = self._numbered(views, {})
        stored = tuple(view_document(v) for v in draft.views)
        owner = construction.this_process()
        document = BuildDocument(stored, draft.states, tuple(tables), total, replaces, owner, None)
        name, lease = views[0].name, construction.lease_document(views[0].name, owner)
        self._change({BUILDS.at(name): document, LOADED.at(name): None, **lease}, following)
        return draft.views[0].state

    def _numbered(self, views: Sequence[ViewDef], known: Iterable[str]) -> tuple[UnpublishedViews, int]:
        number = self._current()._next
        numbered = tuple(replace(v, state=number + i) for i, v in enumerate(views))
        number += len(views)
        wanted = dict.fromkeys(p for v in views for p in v.fingerprints if p not in known)
        return UnpublishedViews(numbered, {p: number + i for i, p in enumerate(wanted)}), number + len(wanted)

    @property
    def builds(self) -> dict[str, ViewBuild]:
        """Builds under way, given up or left, by the name of their (first) view."""
        found = {}
        for document in self._store.documents(BUILDS).values():
            draft = UnpublishedViews(tuple(view_of(v) for v in document.views), document.states)
            loaded = construction.read_progress(self._store, draft.views[0].name)
            making = ViewBuild(
                draft,
                document.tables,
                document.total,
                document.replaces,
                is_leased(self._store, construction.lease_key(draft.views[0].name)),
                None if document.owner is None else document.owner.pid,
                document.failed,
                loaded.bounds,
                loaded.rows,
                loaded.failures,
            )
            found[making.name] = making
        return found

    def own(self, name: str, owner: Owner | None) -> None:
        """Take a build over, or leave it to others."""
        document = self._store.document(BUILDS, name)
        if document is not None:
            lease = construction.lease_document(name, owner)
            self._store.change_documents({BUILDS.at(name): structs.replace(document, owner=owner), **lease})

    def abandon(self, making: ViewBuild) -> None:
        """Forget a build; its states become leftovers."""
        gone = {BUILDS.at(making.name): None, LOADED.at(making.name): None}
        gone.update(construction.lease_document(making.name, None))
        self._change({**gone, **self._dropping([] if making.failed else making.unpublished.numbers)})

    def publish(self, draft: UnpublishedViews) -> None:
        """Let views be seen, new ones or in place of those of the same names, all at once."""
        epoch = self._epoch()
        replaced = [self.views[v.name] for v in draft.views if v.name in self.views]
        states = {p: n for p, n in draft.states.items() if p not in self.states}
        doubles = [n for p, n in draft.states.items() if p in self.states]
        name = draft.views[0].name
        self._change(
            {
                **{VIEWS.at(v.name): view_document(replace(v, since=epoch)) for v in draft.views},
                **{STATES.at(p): n for p, n in states.items()},
                **self._unneeded(replaced, draft.views, doubles),
                BUILDING.name: None,
                BUILDS.at(name): None,
                LOADED.at(name): None,
                **construction.lease_document(name, None),
            }
        )

    # dropping

    def drop_view(self, name: str) -> None:
        """Forget a view and the states that only it needed, which become leftovers."""
        view = self.view(name)
        self._refuse_if_used(view.name)
        self._change({VIEWS.at(view.name): None, **self._unneeded([view], [], [])})

    def _unneeded(self, gone: Sequence[ViewDef], come: Sequence[ViewDef], more: list[int]) -> dict[str, Any]:
        """The documents that let go of views, of states that nobody else needs, and of `more`."""
        if not gone:
            return self._dropping(more) if more else {}
        names = {v.name for v in gone}
        kept = [v for v in self.views.values() if v.name not in names]
        needed = {p for v in (*kept, *come) for p in v.fingerprints}
        candidates = {p for v in gone for p in v.fingerprints if p not in needed}
        states = {p: n for p, n in self.states.items() if p in candidates}
        dropped = self._dropping([*more, *(v.state for v in gone), *states.values()])
        return {**dropped, **{STATES.at(p): None for p in states}}

    def _dropping(self, states: Iterable[int]) -> dict[str, Any]:
        epoch = self._epoch()
        return {DROPPING.name: [*(self._store.document(DROPPING) or ()), *((s, epoch) for s in states)]}

    def _epoch(self) -> int:
        return committed(self._store).epoch

    @property
    def unsettled(self) -> set[int]:
        """States of a build in one go that is under way or was left, and all dropped ones."""
        dropped = self._store.document(DROPPING) or ()
        return {*(self._store.document(BUILDING) or ()), *(state for state, _ in dropped)}

    def leftovers(self) -> list[int]:
        """States of a build that did not finish, and dropped ones that no running query can be reading any more."""
        dropped = self._store.document(DROPPING) or ()
        pinned = oldest_pinned(self._store) if dropped else None
        free = [state for state, epoch in dropped if pinned is None or pinned.epoch > epoch]
        return [*(self._store.document(BUILDING) or ()), *free]

    def clear_leftovers(self) -> None:
        """Remove the rows and states of tables and views that were dropped or never finished.

        The caller holds the epoch lock.
        """
        if tables := self._store.document(EMPTYING):
            for table in tables:
                self._store.drop_rows(table)
            self._store.change_documents({EMPTYING.name: None})
        if states := self.leftovers():
            for state in states:
                self._store.drop_state(state)
            dropped = [(s, e) for s, e in self._store.document(DROPPING) or () if s not in states]
            self._store.change_documents({BUILDING.name: None, DROPPING.name: dropped or None})

    def _refuse_if_used(self, name: str) -> None:
        if users := self.dependants(name):
            raise InUse(name=name, users=", ".join(users))

    def _change(self, documents: dict[str, Any], following: int | None = None) -> None:
        with self._lock:
            self._change_all(documents, following)

    def _change_all(self, documents: dict[str, Any], following: int | None) -> None:
        current = self._current()
        seen = None if current._version == 0 else Head(current._version, current._next)
        head = Head(current._version + 1, following or current._next)
        faults.point("catalog.change")
        self._store.change_documents({**documents, CATALOG.name: head}, expected={CATALOG.name: seen})
        faults.point("catalog.changed")
        # what it was, with the change: reading all of it again would make a thousand views slow to create
        self._tables = _changed(self._tables, TABLES, documents, table_of)
        self._views = _changed(self._views, VIEWS, documents, view_of)
        self._states = _changed(self._states, STATES, documents, int)
        self._version, self._next = head.version, head.next


def _changed(known: dict[str, T], kind: Kind[D], documents: dict[str, Any], read: Callable[[D], T]) -> dict[str, T]:
    """What the catalog knows of one kind, after a change of documents."""
    updated = dict(known)
    for name, document in documents.items():
        if name.startswith(kind.name):
            key = name.removeprefix(kind.name)
            updated.pop(key, None)
            if document is not None:
                updated[key] = read(document)
    return updated
