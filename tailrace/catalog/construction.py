"""Views that are built chunk by chunk, one chunk per epoch: their documents, their progress, and giving up.

    build:<name>     the views, states and tables of the build, and its owner; or why it failed
    loaded:<name>    the progress: how far into each table, how many rows, and the failures since the last chunk

The transaction that commits a chunk's epoch also advances the bounds, so each chunk is loaded exactly once, no matter
which process runs the epoch. If the owner dies, the next process that refreshes continues the build. A transient
failure is recorded and the chunk is retried. After `TRIES` failures in a row the build is given up, because other
views wait for it.
"""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Annotated, Any, NamedTuple

import msgspec
from msgspec import structs

from tailrace import events
from tailrace.catalog.definition import ViewDocument
from tailrace.store.base import Store
from tailrace.store.commits import read_committed
from tailrace.store.documents import Count, Document, Kind, Number
from tailrace.store.leases import DURATION, LEASES, Lease
from tailrace.store.parts import EVERYTHING, Bounds
from tailrace.store.processes import this_process

if TYPE_CHECKING:
    from tailrace.plan.physical.physical_plan import ViewSink

AT_ONCE = 200_000  # a view over at most this many table rows is built in one job
CHUNK = 1_000_000  # table rows per chunk: smaller chunks cost more in total, larger ones need more memory
CHUNK_BYTES = 256 << 20  # limit on the stored size of a chunk's rows

TRIES = 3  # failures in a row without a committed chunk after which a build is given up


class Owner(Document, frozen=True):
    """The process that runs a build."""

    pid: Count
    host: str
    started: Count | None = None


class BuildDocument(Document, frozen=True):
    """A build: its views, states, tables and owner, and why it failed if it did."""

    views: Annotated[tuple[ViewDocument, ...], msgspec.Meta(min_length=1)]
    states: dict[str, Number]
    tables: tuple[Number, ...]
    total: Count
    replaces: bool
    owner: Owner | None
    failed: str | None


class Loaded(Document, frozen=True):
    """A build's progress: the bound per table and node, the rows loaded, and the failures since the last chunk."""

    bounds: Bounds = {}
    rows: Count = 0
    failures: tuple[str, ...] = ()

    def fits(self, nodes: int) -> bool:
        return all(len(bounds) == nodes for bounds in self.bounds.values())


BUILDS: Kind[BuildDocument] = Kind("build:", BuildDocument)
LOADED: Kind[Loaded] = Kind("loaded:", Loaded)
DROPPING: Kind[tuple[tuple[int, int], ...]] = Kind("dropping", tuple[tuple[Number, Count], ...])


class Load(NamedTuple):
    """A chunk: the name of its build, the build's bounds after it, and its number of rows."""

    build: str
    coming: Bounds
    rows: Count


@dataclass(frozen=True)
class PlannedBuild:
    """A build as epochs see it: physical plans, private states, tables in loading order, and progress."""

    name: str
    views: tuple[ViewSink, ...]
    states: Mapping[str, int]
    tables: tuple[int, ...]
    loaded: Bounds
    rows: int
    total: int

    @property
    def is_begun(self) -> bool:
        return bool(self.loaded)

    @property
    def is_complete(self) -> bool:
        return all(set(self.loaded.get(table, ("",))) == {EVERYTHING} for table in self.tables)

    def has_rows_of(self, table: int) -> bool:
        """Whether rows of the table are loaded, so that changes in its log must be applied."""
        return any(self.loaded.get(table, ()))


def read_progress(store: Store, name: str) -> Loaded:
    return store.document(LOADED, name) or Loaded()


def reread_progress(store: Store, builds: Sequence[PlannedBuild]) -> list[PlannedBuild]:
    """Updates builds with their stored progress and leaves out failed ones."""
    live_builds = []
    for build in builds:
        document = store.document(BUILDS, build.name)
        if document is not None and not document.failed:
            loaded = read_progress(store, build.name)
            live_builds.append(replace(build, loaded=loaded.bounds, rows=loaded.rows))
    return live_builds


def progress_document(build: PlannedBuild, load: Load) -> dict[str, Any]:
    """The document that advances a build's bounds past a chunk and clears its failures."""
    return {LOADED.at(build.name): Loaded(load.coming, build.rows + load.rows)}


def note_failure(store: Store, name: str, reason: str) -> bool:
    """Records a failure that may be transient. Gives up the build and returns True if it was the last try."""
    loaded = read_progress(store, name)
    failures = (*loaded.failures, reason)
    if len(failures) >= TRIES:
        give_up(store, name, f"{reason} (the last of {len(failures)} failures in a row)")
        return True
    store.change_documents({LOADED.at(name): structs.replace(loaded, failures=failures)})
    return False


def give_up(store: Store, name: str, reason: str) -> None:
    """Marks a build as failed. Its states become leftovers; its document stays, to show the reason."""
    document = store.document(BUILDS, name)
    if document is None:
        return
    states = [*(view.state for view in document.views), *document.states.values()]
    epoch = read_committed(store).epoch  # a backup that pins this epoch may still copy the states
    store.change_documents(
        {
            BUILDS.at(name): structs.replace(document, failed=reason, owner=None, states={}),
            LOADED.at(name): None,
            **lease_document(name, None),
            DROPPING.name: [*(store.document(DROPPING) or ()), *((state, epoch) for state in states)],
        }
    )
    events.view_failed(store.path, name, reason)


def this_owner() -> Owner:
    """This process, as the owner of a build."""
    return Owner(**this_process())


def lease_key(name: str) -> str:
    """The key of the lease that a build's owner holds."""
    return f"build:{name}"


def lease_document(name: str, owner: Owner | None) -> dict[str, Any]:
    """The document that leases a build to an owner, or releases it if `owner` is None."""
    if owner is None:
        return {LEASES.at(lease_key(name)): None}
    expires = time.time() + DURATION
    return {LEASES.at(lease_key(name)): Lease(pid=owner.pid, host=owner.host, started=owner.started, expires=expires)}


def sort_tables(tables: Sequence[int], rows: Mapping[int, int]) -> tuple[int, ...]:
    """Sorts tables by size, smallest first: rows of large tables then find their join partners already loaded."""
    return tuple(sorted(tables, key=lambda t: (rows[t], t)))
