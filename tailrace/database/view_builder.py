"""Builds views: over small tables in one job, over large ones chunk by chunk, and as replacements of existing views.

    small     one job under the epoch lock; the view is published when it ends
    large     one epoch per chunk of table rows, which also refreshes all other views; then the view is published

A chunked build is stored as documents. If its process is killed or interrupted, the next refresh continues with the
chunk after the last committed one. A replacement is built beside the existing view, and compared with recomputation
before it is published.
"""

from __future__ import annotations

import contextlib
import os
import signal
import threading
from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING

from tailrace import events, faults
from tailrace.catalog import construction
from tailrace.catalog.catalog import Catalog, UnpublishedViews, ViewBuild
from tailrace.catalog.definition import ViewDef
from tailrace.database.progress import OnStep, Step
from tailrace.database.signals import caught
from tailrace.epochs.maintained import Maintained, maintained, planned_build, recomputable_view
from tailrace.epochs.protocol import Epochs
from tailrace.errors import BuildFailed, EpochFailed, EpochsLocked
from tailrace.store.base import Store
from tailrace.store.leases import LEASES, renewing
from tailrace.store.locks import EpochLock
from tailrace.store.pins import Pin, committed_pin, pinned
from tailrace.verify.comparison import verify

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

RELEASE = 5.0  # seconds that an interrupted build waits for the epoch lock, to release its ownership


class Builder:
    """Builds the views of one store. `chunk` is the number of table rows that one epoch of a build loads."""

    def __init__(
        self, store: Store, catalog: Catalog, epochs: Epochs, lock: EpochLock, spark: Callable[[], SparkSession]
    ) -> None:
        self._store, self._catalog, self._epochs, self._lock, self._spark = store, catalog, epochs, lock, spark
        self.chunk = construction.CHUNK
        self._active: set[str] = set()

    def start(self, views: Sequence[ViewDef], replaces: bool, on_step: OnStep) -> int | None:
        """Build views at once and return None, or begin a chunked build and return its number, for `finish`.

        The caller holds the epoch lock.
        """
        self._catalog.clear_leftovers()
        rows = self._table_rows(views)
        if _is_small(rows, self.chunk) or not all(v.plan is not None and v.plan.is_chunked for v in views):
            self._build_at_once(views, replaces, on_step)
            return None
        return self._catalog.begin(views, replaces, construction.sort_tables(list(rows), rows), sum(rows.values()))

    def warm_up(self) -> None:
        """Starts what `start` needs, before the epoch lock is taken: epochs of other processes go on meanwhile."""
        self._epochs.jobs.warm_up()

    def is_small(self, views: Sequence[ViewDef]) -> bool:
        """Whether the tables that these views read are small enough for a build in one job."""
        return _is_small(self._table_rows(views), self.chunk)

    def _table_rows(self, views: Sequence[ViewDef]) -> dict[int, int]:
        """The number of rows of each table that these views read, by table id."""
        tables = {t.id: t for t in self._catalog.tables.values()}
        return {id_: self._store.count(tables[id_]) for id_ in {id_ for view in views for id_ in view.tables}}

    def _build_at_once(self, views: Sequence[ViewDef], replaces: bool, on_step: OnStep) -> None:
        on_step(Step("refreshing existing views"))
        reads_time = any(v.plan is not None and v.plan.temporal for v in views)
        self._epochs.refresh(maintained(self._catalog), passes_time=reads_time)
        draft = self._catalog.reserve_states(views)
        existing = maintained(self._catalog)
        shared = frozenset(self._catalog.live_states.values())
        target = Maintained(existing.tables, [], {**existing.states, **draft.states})
        try:
            on_step(Step(f"building {', '.join(v.name for v in draft.views)}"))
            self._epochs.build(target, [recomputable_view(self._catalog, v, draft.views) for v in draft.views], shared)
            if replaces:
                self._require_correct(draft, committed_pin(self._store), on_step)
        except (EpochFailed, BuildFailed) as error:
            self._catalog.clear_leftovers()
            raise BuildFailed(name=draft.views[0].name, reason=error.reason) from error
        faults.point("build.publish")
        self._catalog.publish(draft)
        faults.point("build.published")
        self._catalog.clear_leftovers()
        for view in draft.views:
            events.view_published(self._store.path, view.name)

    def finish(self, name: str, number: int, on_step: OnStep) -> None:
        """Load the remaining chunks and publish the build. If interrupted, the next refresh continues it.

        The build may be published by its previous owner meanwhile, if that process is still alive.
        """
        self._active.add(name)
        try:
            with renewing(self._store, LEASES, construction.lease_key(name)):
                self._load_all(name, number, on_step)
                self._publish(name, number, on_step)
        except BuildFailed:
            if self._is_published(name, number):
                return
            making = self._catalog.builds.get(name)
            if making is not None and making.number == number:
                self.discard(name)
            raise
        except BaseException:
            with contextlib.suppress(EpochsLocked), self._lock.held(RELEASE):
                self._catalog.own(name, None)
            raise
        finally:
            self._active.discard(name)

    def _is_published(self, name: str, number: int) -> bool:
        view = self._catalog.views.get(name)
        return view is not None and view.state == number

    def _load_all(self, name: str, number: int, on_step: OnStep) -> None:
        """Load all remaining chunks. SIGINT takes effect after the current chunk."""
        interrupted = threading.Event()
        with caught(interrupted.set, signal.SIGINT):
            while (making := self._load_chunk(name, number)) is not None:
                on_step(Step(f"building {name}", making.rows, making.total))
                if interrupted.is_set():
                    raise KeyboardInterrupt

    def discard(self, name: str) -> None:
        """Remove a build and its states."""
        with self._lock.held():
            if (making := self._catalog.builds.get(name)) is not None:
                self._catalog.abandon(making)
            self._catalog.clear_leftovers()

    def is_running(self, making: ViewBuild) -> bool:
        """Whether another live process, or a thread of this one, runs the build."""
        return making.owned and (making.pid != os.getpid() or making.name in self._active)

    def _load_chunk(self, name: str, number: int) -> ViewBuild | None:
        """Run one epoch that loads the next chunk. Returns None if all chunks are loaded."""
        self._epochs.jobs.warm_up()
        with self._lock.held():
            build = planned_build(self._require_build(name, number))
            if build.is_complete:
                return None
            self._epochs.advance(maintained(self._catalog), build, self.chunk)
            making = self._require_build(name, number)
        events.build_step(self._store.path, name, making.rows, making.total)
        return making

    def _require_build(self, name: str, number: int) -> ViewBuild:
        """Raises `BuildFailed` if the build was dropped or has failed."""
        making = self._catalog.builds.get(name)
        if making is None or making.number != number:
            raise BuildFailed(name=name, reason="another process dropped the build; create the view again")
        if making.failed:
            raise BuildFailed(name=name, reason=making.failed)
        return making

    def _publish(self, name: str, number: int, on_step: OnStep) -> None:
        """Publish a complete build. A replacement is compared with recomputation first."""
        making = self._require_build(name, number)
        if making.replaces:
            with pinned(self._store) as pin:
                try:
                    self._require_correct(making.unpublished, pin, on_step)
                except BuildFailed as error:
                    with self._lock.held():
                        self._require_build(name, number)
                        construction.give_up(self._store, name, error.reason)
                    raise
        with self._lock.held():
            self._require_build(name, number)
            faults.point("build.publish")
            self._catalog.publish(making.unpublished)
            faults.point("build.published")
            self._catalog.clear_leftovers()
        events.view_published(self._store.path, name)

    def _require_correct(self, draft: UnpublishedViews, pin: Pin, on_step: OnStep) -> None:
        """Raises `BuildFailed` unless the new views equal their recomputation."""
        for view in draft.views:
            on_step(Step(f"verifying {view.name}"))
            report = verify(self._spark(), self._store, view, self._catalog.query(view, draft.views), pin)
            if not report.ok:
                counts = f"{report.missing:,} missing, {report.extra:,} extra"
                reason = f"its rows differ from a recomputation by Spark ({counts}); please report this"
                if view.refresh != "full":
                    reason += ", or use refresh = 'full'"
                raise BuildFailed(name=view.name, reason=reason)

    # interrupted builds

    def interrupted(self) -> list[ViewBuild]:
        """Builds that no process runs any more."""
        return [m for m in self._catalog.builds.values() if not self.is_running(m) and not m.failed]

    def take_over(self, name: str) -> None:
        with self._lock.held():
            self._catalog.own(name, construction.this_owner())

    def step(self, build: ViewBuild, on_step: OnStep) -> None:
        """Load one chunk of an interrupted build, or publish it if all chunks are loaded."""
        name, number = build.name, build.number
        with contextlib.suppress(BuildFailed):  # `status()` shows the failed build with its reason
            if (making := self._load_chunk(name, number)) is None:
                self._publish(name, number, on_step)
            else:
                on_step(Step(f"building {name}", making.rows, making.total))


def _is_small(rows: Mapping[int, int], chunk: int) -> bool:
    return sum(rows.values()) <= min(chunk, construction.AT_ONCE)
