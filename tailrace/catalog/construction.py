"""Views that are being built, chunk by chunk, one epoch each.

    build:<name>     what is built, with which states, by whom; or why it failed
    loaded:<name>    how far it has come: bounds of the part of the tables, rows, and failures since then

The bounds move in the same transaction that commits the epoch of their chunk, so a chunk is taken in exactly
once, whoever runs the epoch: a build that its process left is continued by the next one. A failure that may pass is
noted and the chunk tried again; so many in a row and the build is given up, for other views wait for it.
"""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Annotated, Any, NamedTuple

import msgspec
from msgspec import structs

from tailrace.catalog.definition import ViewDocument
from tailrace.store.base import Store
from tailrace.store.documents import Count, Document, Kind, Number
from tailrace.store.leases import DURATION, LEASES, Lease
from tailrace.store.parts import EVERYTHING, Bounds
from tailrace.store.processes import me

if TYPE_CHECKING:
    from tailrace.plan.physical.physical_plan import ViewSink

AT_ONCE = 200_000  # rows of tables up to which a view is built in one go
CHUNK = 1_000_000  # rows of tables that one epoch of a build takes in: fewer cost more in all, more take more memory
CHUNK_BYTES = 256 << 20  # and the most that these rows take in the store

TRIES = 3  # failures in a row, without a chunk that came in, after which a build is given up


class Owner(Document, frozen=True):
    """The process that runs a build."""

    pid: Count
    host: str
    started: Count | None = None


class BuildDocument(Document, frozen=True):
    """A build: its views, states and tables, who runs it, or why it failed."""

    views: Annotated[tuple[ViewDocument, ...], msgspec.Meta(min_length=1)]
    states: dict[str, Number]
    tables: tuple[Number, ...]
    total: Count
    replaces: bool
    owner: Owner | None
    failed: str | None


class Loaded(Document, frozen=True):
    """How far a build has come: the bounds of its part of the tables, its rows, and failures since the last chunk."""

    bounds: Bounds = {}
    rows: Count = 0
    failures: tuple[str, ...] = ()

    def fits(self, nodes: int) -> bool:
        return all(len(bounds) == nodes for bounds in self.bounds.values())


BUILDS: Kind[BuildDocument] = Kind("build:", BuildDocument)
LOADED: Kind[Loaded] = Kind("loaded:", Loaded)
DROPPING: Kind[tuple[tuple[int, int], ...]] = Kind("dropping", tuple[tuple[Number, Count], ...])


class Load(NamedTuple):
    """A chunk: the build it belongs to, the bounds after it, and the rows it brings."""

    build: str
    coming: Bounds
    rows: Count


@dataclass(frozen=True)
class PlannedBuild:
    """Views half built: their plans and private states, the tables in the order they are taken in, and how far."""

    name: str
    views: tuple[ViewSink, ...]
    states: Mapping[str, int]
    tables: tuple[int, ...]
    loaded: Bounds
    rows: int
    total: int

    @property
    def begun(self) -> bool:
        return bool(self.loaded)

    @property
    def complete(self) -> bool:
        return all(set(self.loaded.get(table, ("",))) == {EVERYTHING} for table in self.tables)

    def holds(self, table: int) -> bool:
        """Whether some of a table has come in, so that its log matters."""
        return any(self.loaded.get(table, ()))


def read_progress(store: Store, name: str) -> Loaded:
    return store.document(LOADED, name) or Loaded()


def reread_progress(store: Store, builds: Sequence[PlannedBuild]) -> list[PlannedBuild]:
    """Builds with their progress as of now, without those that have failed."""
    alive = []
    for build in builds:
        document = store.document(BUILDS, build.name)
        if document is not None and not document.failed:
            loaded = read_progress(store, build.name)
            alive.append(replace(build, loaded=loaded.bounds, rows=loaded.rows))
    return alive


def progress_document(build: PlannedBuild, load: Load) -> dict[str, Any]:
    """The document that moves a build's bounds past a chunk, and forgets failures before it."""
    return {LOADED.at(build.name): Loaded(load.coming, build.rows + load.rows)}


def note_failure(store: Store, name: str, reason: str) -> bool:
    """Note a failure that may pass; returns whether it was one too many and the build has failed."""
    loaded = read_progress(store, name)
    failures = (*loaded.failures, reason)
    if len(failures) >= TRIES:
        give_up(store, name, f"{reason} (the last of {len(failures)} failures in a row)")
        return True
    store.change_documents({LOADED.at(name): structs.replace(loaded, failures=failures)})
    return False


def give_up(store: Store, name: str, reason: str) -> None:
    """Give a build up: its states become leftovers, and it stays visible with the reason."""
    document = store.document(BUILDS, name)
    if document is None:
        return
    states = [*(view.state for view in document.views), *document.states.values()]
    store.change_documents(
        {
            BUILDS.at(name): structs.replace(document, failed=reason, owner=None, states={}),
            LOADED.at(name): None,
            **lease_document(name, None),
            DROPPING.name: [*(store.document(DROPPING) or ()), *((state, 0) for state in states)],
        }
    )


def this_process() -> Owner:
    """This process, as the owner of a build."""
    return Owner(**me())


def lease_key(name: str) -> str:
    """The key of the lease by which a build belongs to its owner."""
    return f"build:{name}"


def lease_document(name: str, by: Owner | None) -> dict[str, Any]:
    """The document that gives a build to an owner, or (None) releases it."""
    if by is None:
        return {LEASES.at(lease_key(name)): None}
    expires = time.time() + DURATION
    return {LEASES.at(lease_key(name)): Lease(pid=by.pid, host=by.host, started=by.started, expires=expires)}


def sort_tables(tables: Sequence[int], rows: Mapping[int, int]) -> tuple[int, ...]:
    """Small tables first: the rows that large tables join are loaded when the large tables come."""
    return tuple(sorted(tables, key=lambda t: (rows[t], t)))
