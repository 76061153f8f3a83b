"""The catalog: tables, views, builds and the numbers of their states, stored as documents.

    catalog          version, next free number
    table:<name>     columns and key
    layout:<id>      how the rows of a table are stored, if its columns were changed or have defaults
    view:<name>      SQL, plan, columns, key, order, and the number of its state
    state:<print>    the number of the arrangement with that fingerprint
    building         states that a build in one job is filling
    build:<name>     views that are built chunk by chunk, and their states (`catalog/construction.py`)
    failed:<name>    a view that has failed (`catalog/failed.py`)
    dropping         states to remove, each with the last epoch whose readers may need it
    emptying         dropped tables whose rows are not yet deleted

Every change is one transaction that increments the version. Other processes notice changes by the version.
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
from tailrace.catalog.definition import (
    TABLES,
    VIEWS,
    TableDocument,
    ViewDef,
    table_document,
    table_of,
    view_document,
    view_of,
)
from tailrace.catalog.failed import FailedView, failed_documents, read_failed, recovered_documents
from tailrace.catalog.retention import EXPIRIES, RETENTIONS, Retention
from tailrace.codec.layouts import Layout
from tailrace.codec.schema import TableDef
from tailrace.errors import Conflict, InUse, UnknownName
from tailrace.plan.binding import BoundQuery
from tailrace.store.base import LAYOUTS, Store
from tailrace.store.commits import read_committed
from tailrace.store.documents import Changes, Count, Document, Kind, Number
from tailrace.store.leases import is_leased
from tailrace.store.parts import Bounds
from tailrace.store.pins import find_oldest_pin
from tailrace.types import Column

__all__ = ["Catalog", "Relations", "UnpublishedViews", "ViewBuild", "ViewDef"]

D = TypeVar("D")
T = TypeVar("T")
MAX_KNOWN = 8  # names listed by an error about an unknown name


class Head(Document, frozen=True):
    """The catalog's version, and the next free number for a table or state."""

    version: Count
    next: Number


CATALOG: Kind[Head] = Kind("catalog", Head)
STATES: Kind[int] = Kind("state:", Number)
BUILDING: Kind[tuple[int, ...]] = Kind("building", tuple[Number, ...])
EMPTYING: Kind[tuple[int, ...]] = Kind("emptying", tuple[Number, ...])


@dataclass(frozen=True)
class Relations:
    """All tables and views of one catalog version, by name."""

    tables: Mapping[str, TableDef]
    views: Mapping[str, ViewDef]

    def table(self, name: str) -> TableDef:
        if name.lower() not in self.tables:
            raise UnknownName(kind="table", name=name, hint=self._view_hint(name.lower()) or known_names(self.tables))
        return self.tables[name.lower()]

    def view(self, name: str) -> ViewDef:
        if name.lower() not in self.views:
            hint = ": it is a table" if name.lower() in self.tables else known_names(self.views)
            raise UnknownName(kind="view", name=name, hint=hint)
        return self.views[name.lower()]

    def _view_hint(self, name: str) -> str:
        """The hint of an `UnknownName` if this is not a table but a view: the tables that it reads."""
        if name not in self.views:
            return ""
        ids = self.views[name].tables
        tables = ", ".join(sorted(table.name for table in self.tables.values() if table.id in ids))
        return f": it is a view, and only its maintenance writes its rows. It shows rows of {tables}: write to tables"


def known_names(names: Iterable[str]) -> str:
    """The hint of an `UnknownName`: the first few names that exist."""
    ordered = sorted(names)
    shown = [*ordered[:MAX_KNOWN], "..."] if len(ordered) > MAX_KNOWN else ordered
    return f" (known: {', '.join(shown) or 'none'})"


@dataclass(frozen=True)
class UnpublishedViews:
    """Views to be built, and the numbers of the other states that are filled with them, by fingerprint."""

    views: tuple[ViewDef, ...]
    states: dict[str, int]

    @property
    def numbers(self) -> list[int]:
        """The numbers of all their states, view rows included."""
        return [*(v.state for v in self.views), *self.states.values()]


@dataclass(frozen=True)
class ViewBuild:
    """A build chunk by chunk: its views, whether they replace existing ones, its owner, and its progress."""

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
        """Identifies this build, unlike its name, which a later build may reuse."""
        return self.unpublished.views[0].state


class Catalog:
    """The newest version of the catalog. Every access rereads the documents if the stored version has changed."""

    def __init__(self, store: Store) -> None:
        self._store = store
        self._version = -1
        self._layouts: dict[str, Layout] = {}
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
        while head.version != self._version:
            layouts, states = self._store.documents(LAYOUTS), self._store.documents(STATES)
            tables, views = self._store.documents(TABLES), self._store.documents(VIEWS)
            read, head = head, self._store.document(CATALOG) or Head(0, 1)
            if head == read:  # else another process changed some of them meanwhile
                self._layouts, self._states = layouts, states
                self._tables = {t.name: self._table_of(t) for t in tables.values()}
                self._views = {v.name: v for v in map(view_of, views.values())}
                self._version, self._next = head.version, head.next

    def _table_of(self, document: TableDocument) -> TableDef:
        return table_of(document, self._layouts.get(str(document.id)))

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
    def failed(self) -> dict[str, FailedView]:
        """The failed views by name (`catalog/failed.py`)."""
        return read_failed(self._store)

    @property
    def live_states(self) -> dict[str, int]:
        """The states that views keep up to date; those that only failed views keep are left out."""
        failed = self.failed
        if not failed:
            return self.states
        kept = {p for v in self.views.values() if v.name not in failed for p in v.fingerprints}
        return {p: n for p, n in self.states.items() if p in kept}

    @property
    def definitions(self) -> tuple[dict[str, TableDef], dict[str, ViewDef], dict[str, int]]:
        """The tables, the views and the states of one version."""
        with self._lock:
            self._read()
            return self._tables, self._views, self._states

    @property
    def relations(self) -> Relations:
        with self._lock:
            self._read()
            return Relations(self._tables, self._views)

    def table(self, name: str) -> TableDef:
        return self.relations.table(name)

    def view(self, name: str) -> ViewDef:
        return self.relations.view(name)

    def newest(self, table: TableDef) -> TableDef:
        """A table as it is now. Raises UnknownName if it was dropped, even if a new table has its name."""
        tables = self.tables
        found = tables.get(table.name)
        if found is None or found.id != table.id:  # dropped or renamed
            found = next((t for t in tables.values() if t.id == table.id), None)
        if found is None:
            raise UnknownName(kind="table", name=table.name, hint=" any more: it was dropped")
        return found

    def dependants(self, name: str) -> list[str]:
        """The names of the views, published or being built, that read a table or view."""
        unpublished = [v for build in self.builds.values() for v in build.unpublished.views]
        return sorted({v.name for v in (*self.views.values(), *unpublished) if name in v.uses})

    def readers(self, name: str) -> list[ViewDef]:
        """The published views that read a table or view, directly or through views; each after those that it reads."""
        return [self.views[n] for n in views_over(self.views, name)]

    def add_table(
        self,
        name: str,
        columns: tuple[Column, ...],
        key: tuple[str, ...],
        defaults: Mapping[str, str] | None = None,
        retention: Retention | None = None,
        place: Mapping[str, str] | None = None,
    ) -> TableDef:
        """Adds a table. `place` has the options that say where the store has its rows."""
        current = self._current()
        layout = Layout.of(columns, defaults) if defaults else None
        table = TableDef(current._next, name, columns, key, layout)
        documents = {**_table_documents(table), **self._store.new_table(table, place or {})}
        if retention is not None:
            documents[RETENTIONS.at(table.id)] = retention
        self._change(documents, current._next + 1)
        return table

    def alter(
        self,
        table: TableDef,
        views: Sequence[ViewDef] = (),
        dropped: Sequence[ViewDef] = (),
        was: str | None = None,
        retention: Retention | None = None,
    ) -> None:
        """Changes a table, and with it views whose SQL names it; drops other views. All in one transaction.

        `was` is the earlier name of a table that gets another one. `retention` is new if its column has a new name.
        """
        removal = {} if was is None or was == table.name else {TABLES.at(was): None}
        kept = {} if retention is None else {RETENTIONS.at(table.id): retention}
        documents = {**removal, **_table_documents(table), **kept, **self._redefined(views), **self._dropped(dropped)}
        while True:
            changes, expected = self._store.altered_table(table)
            try:
                return self._change({**documents, **changes}, expected=expected)
            except Conflict as conflict:
                if conflict.document not in expected:
                    raise

    def rename_view(self, was: str, view: ViewDef, others: Sequence[ViewDef], more: dict[str, Any]) -> None:
        """Gives a view another name, and with it changes views that read it. `more` are documents that name it."""
        self._change({VIEWS.at(was): None, **self._redefined([view, *others]), **more})

    @staticmethod
    def _redefined(views: Sequence[ViewDef]) -> dict[str, Any]:
        return {VIEWS.at(v.name): view_document(v) for v in views}

    def drop_table(self, name: str, *, cascade: bool = False) -> None:
        """Removes a table from the catalog, with `cascade` also the views over it. Its rows become leftovers."""
        table = self.table(name)
        views = self._cascaded(table.name, cascade)
        emptying = [*(self._store.document(EMPTYING) or ()), table.id]
        removals = dict.fromkeys(kind.at(table.id) for kind in (LAYOUTS, RETENTIONS, EXPIRIES))
        self._change({TABLES.at(table.name): None, **removals, EMPTYING.name: emptying, **self._dropped(views)})

    def retention(self, table: TableDef) -> Retention | None:
        """How long a table keeps its rows; None if for ever."""
        return self._store.document(RETENTIONS, table.id)

    def place(self, table: TableDef) -> Mapping[str, str]:
        """The options that say where the store has the rows of a table."""
        return self._store.table_options(table)

    def _cascaded(self, name: str, cascade: bool) -> list[ViewDef]:
        """The views that are dropped with a table or view. Raises `InUse` if there are some that must not be."""
        if not cascade:
            self._refuse_if_used(name)
        return self.readers(name)

    def _dropped(self, views: Sequence[ViewDef]) -> dict[str, Any]:
        removals = {VIEWS.at(v.name): None for v in views}
        return {**removals, **self._drop_views(views, [], []), **self._recover(v.name for v in views)}

    def query(self, view: ViewDef, others: Sequence[ViewDef] = ()) -> BoundQuery:
        """The view's SQL with that of all views it reads. Views in `others` take precedence over published ones."""
        known = ChainMap({v.name: v for v in others}, self.views)
        reads: list[tuple[str, TableDef | BoundQuery]] = []
        for name in view.uses:
            source = self.query(known[name], others) if name in known else view.known(self.tables[name])
            reads.append((name, source))
        return BoundQuery(view.sql, tuple(reads))

    # building

    def reserve_states(self, views: Sequence[ViewDef]) -> UnpublishedViews:
        """Numbers new views, and the states that no other view keeps yet.

        The numbers are listed in `building`: the states become leftovers if the build ends before `publish`.
        """
        unpublished, next_number = self._assign_numbers(views, self.live_states)
        self._change({BUILDING.name: unpublished.numbers}, next_number)
        return unpublished

    def begin(self, views: Sequence[ViewDef], replaces: bool, tables: Sequence[int], total: int) -> int:
        """Records a build chunk by chunk, owned by this process, with private states. Returns the build's number."""
        unpublished, next_number = self._assign_numbers(views, {})
        stored = tuple(view_document(v) for v in unpublished.views)
        owner = construction.this_owner()
        document = BuildDocument(stored, unpublished.states, tuple(tables), total, replaces, owner, None)
        name, lease = views[0].name, construction.lease_document(views[0].name, owner)
        self._change({BUILDS.at(name): document, LOADED.at(name): None, **lease}, next_number)
        return unpublished.views[0].state

    def _assign_numbers(self, views: Sequence[ViewDef], existing: Iterable[str]) -> tuple[UnpublishedViews, int]:
        """Numbers views and those of their states that do not exist yet. Also returns the next free number."""
        number = self._current()._next
        numbered = tuple(replace(v, state=number + i) for i, v in enumerate(views))
        number += len(views)
        missing = dict.fromkeys(p for v in views for p in v.fingerprints if p not in existing)
        return UnpublishedViews(numbered, {p: number + i for i, p in enumerate(missing)}), number + len(missing)

    @property
    def builds(self) -> dict[str, ViewBuild]:
        """All builds chunk by chunk (running, failed or without owner), by the name of their first view."""
        builds = {}
        for document in self._store.documents(BUILDS).values():
            unpublished = UnpublishedViews(tuple(view_of(v) for v in document.views), document.states)
            loaded = construction.read_progress(self._store, unpublished.views[0].name)
            build = ViewBuild(
                unpublished,
                document.tables,
                document.total,
                document.replaces,
                is_leased(self._store, construction.lease_key(unpublished.views[0].name)),
                None if document.owner is None else document.owner.pid,
                document.failed,
                loaded.bounds,
                loaded.rows,
                loaded.failures,
            )
            builds[build.name] = build
        return builds

    def own(self, name: str, owner: Owner | None) -> None:
        """Makes a process the owner of a build, or (None) releases the build for other processes."""
        document = self._store.document(BUILDS, name)
        if document is not None:
            lease = construction.lease_document(name, owner)
            self._store.change_documents({BUILDS.at(name): structs.replace(document, owner=owner), **lease})

    def abandon(self, build: ViewBuild) -> None:
        """Removes a build from the catalog. Its states become leftovers."""
        removals = {BUILDS.at(build.name): None, LOADED.at(build.name): None}
        removals.update(construction.lease_document(build.name, None))
        # `construction.give_up` has already listed the states of a failed build.
        self._change({**removals, **self._drop_states([] if build.failed else build.unpublished.numbers)})

    def publish_failed(self, view: ViewDef, failed: FailedView) -> None:
        """Adds a view that could not be built, with empty states. An epoch that recomputes it makes it readable."""
        unpublished = self.reserve_states([view])
        known = {**self.live_states, **unpublished.states}
        states = {unpublished.views[0].state, *(known[p] for p in view.fingerprints)}
        self.publish(unpublished, failed_documents(view.name, structs.replace(failed, states=tuple(sorted(states)))))

    def publish(self, unpublished: UnpublishedViews, more: Mapping[str, Any] | None = None) -> None:
        """Makes built views readable in one transaction. They replace published views of the same names.

        `more` are documents to write in the same transaction.
        """
        epoch = self._committed_epoch()
        views = unpublished.views
        replaced = [self.views[v.name] for v in views if v.name in self.views]
        live = self.live_states
        new_states = {p: n for p, n in unpublished.states.items() if p not in live}
        # A failed view kept a state of the same fingerprint, which is behind. It will be recomputed with the new one.
        outdated = [n for p, n in self.states.items() if p in new_states]
        duplicates = [n for p, n in unpublished.states.items() if p in live] + outdated
        name = views[0].name
        self._change(
            {
                **{VIEWS.at(v.name): view_document(replace(v, since=epoch)) for v in views},
                **self._drop_views(replaced, views, duplicates),
                **{STATES.at(p): n for p, n in new_states.items()},
                **self._recover(v.name for v in views),
                BUILDING.name: None,
                BUILDS.at(name): None,
                LOADED.at(name): None,
                **construction.lease_document(name, None),
                **(more or {}),
            }
        )

    # dropping

    def drop_view(self, name: str, *, cascade: bool = False) -> None:
        """Removes a view from the catalog, with `cascade` also the views over it.

        Their states become leftovers, except those that other views share.
        """
        view = self.view(name)
        self._change(self._dropped([view, *self._cascaded(view.name, cascade)]))

    def _recover(self, names: Iterable[str]) -> dict[str, Any]:
        """The documents that remove the marks of failed views, because they are dropped or replaced."""
        failed = self.failed
        return {k: v for name in names if name in failed for k, v in recovered_documents(name).items()}

    def _drop_views(self, old: Sequence[ViewDef], new: Sequence[ViewDef], duplicates: list[int]) -> dict[str, Any]:
        """The documents that drop the states of `old` views that neither `new` nor other views need.

        They also drop `duplicates`: private states of a build that other views already keep.
        """
        if not old:
            return self._drop_states(duplicates) if duplicates else {}
        names = {v.name for v in old}
        others = [v for v in self.views.values() if v.name not in names]
        needed = {p for v in (*others, *new) for p in v.fingerprints}
        unneeded = {p for v in old for p in v.fingerprints if p not in needed}
        states = {p: n for p, n in self.states.items() if p in unneeded}
        dropped = self._drop_states([*duplicates, *(v.state for v in old), *states.values()])
        return {**dropped, **{STATES.at(p): None for p in states}}

    def _drop_states(self, states: Iterable[int]) -> dict[str, Any]:
        epoch = self._committed_epoch()
        return {DROPPING.name: [*(self._store.document(DROPPING) or ()), *((s, epoch) for s in states)]}

    def _committed_epoch(self) -> int:
        return read_committed(self._store).epoch

    @property
    def unsettled(self) -> set[int]:
        """States of a build in one job (running or interrupted), and all dropped states."""
        dropped = self._store.document(DROPPING) or ()
        return {*(self._store.document(BUILDING) or ()), *(state for state, _ in dropped)}

    def leftovers(self) -> list[int]:
        """States of an unfinished build in one job, and dropped states that no pinned epoch still shows."""
        dropped = self._store.document(DROPPING) or ()
        pinned = find_oldest_pin(self._store) if dropped else None
        unread = [state for state, epoch in dropped if pinned is None or pinned.epoch > epoch]
        return [*(self._store.document(BUILDING) or ()), *unread]

    def clear_leftovers(self) -> None:
        """Deletes the rows of dropped tables and the states of dropped or unfinished views.

        The caller holds the epoch lock.
        """
        if tables := self._store.document(EMPTYING):
            for table in tables:
                self._store.drop_rows(table)
            self._store.change_documents({EMPTYING.name: None})
        dropping, building = self._store.document(DROPPING), self._store.document(BUILDING)
        if states := self.leftovers():
            for state in states:
                self._store.drop_state(state)
            # If another process has taken the lock meanwhile, what it has added must stay.
            left = [(s, e) for s, e in dropping or () if s not in states]
            before = {DROPPING.name: dropping, BUILDING.name: building}
            self._store.change_documents({BUILDING.name: None, DROPPING.name: left or None}, expected=before)

    def _refuse_if_used(self, name: str) -> None:
        if users := self.dependants(name):
            raise InUse(name=name, users=", ".join(users))

    def _change(
        self, documents: dict[str, Any], next_number: int | None = None, expected: Changes | None = None
    ) -> None:
        """Writes documents and increments the version in one transaction. Fails if another process was faster.

        That is if the catalog has another version by now, or if documents are no longer as `expected`.
        """
        with self._lock:
            self._change_locked(documents, next_number, expected or {})

    def _change_locked(self, documents: dict[str, Any], next_number: int | None, expected: Changes) -> None:
        current = self._current()
        old_head = None if current._version == 0 else Head(current._version, current._next)
        head = Head(current._version + 1, next_number or current._next)
        faults.point("catalog.change")
        self._store.change_documents({**documents, CATALOG.name: head}, expected={CATALOG.name: old_head, **expected})
        faults.point("catalog.changed")
        # Apply the change to the cached copy: rereading all documents would make creating 1,000 views slow.
        self._layouts = _update(self._layouts, LAYOUTS, documents, lambda layout: layout)
        self._tables = _update(self._tables, TABLES, documents, self._table_of)
        self._views = _update(self._views, VIEWS, documents, view_of)
        self._states = _update(self._states, STATES, documents, int)
        self._version, self._next = head.version, head.next


def views_over(views: Mapping[str, ViewDef], name: str) -> list[str]:
    """The views that read a table or view, directly or indirectly, each after those it reads."""
    names: list[str] = []

    def visit(below: str) -> None:
        for view in views.values():
            if below in view.uses:
                if view.name in names:
                    names.remove(view.name)
                names.append(view.name)
                visit(view.name)

    visit(name)
    return names


def _table_documents(table: TableDef) -> dict[str, Any]:
    layout = {} if table.layout is None else {LAYOUTS.at(table.id): table.layout}
    return {TABLES.at(table.name): table_document(table), **layout}


def _update(known: dict[str, T], kind: Kind[D], documents: dict[str, Any], read: Callable[[D], T]) -> dict[str, T]:
    """Applies changed documents of one kind to the cached values of that kind. A document of None removes its value."""
    updated = dict(known)
    for name, document in documents.items():
        if name.startswith(kind.name):
            key = name.removeprefix(kind.name)
            updated.pop(key, None)
            if document is not None:
                updated[key] = read(document)
    return updated
