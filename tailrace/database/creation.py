"""Making views: in one go over small tables, chunk by chunk over large ones, and in place of those there are.

    small     one job under the epoch lock: the new view is there when it ends
    large     an epoch for each chunk of rows, in which all other views are refreshed too; then the view is published

A build is written down with all it needs. When its process is killed or interrupted, whoever refreshes next goes on
with the chunk after the last one that was committed. New definitions of views that exist are built beside them and
compared with recomputation before they take their place.
"""

from __future__ import annotations

import contextlib
import os
import signal
import threading
from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING

from tailrace import faults
from tailrace.catalog import construction
from tailrace.catalog.catalog import Catalog, UnpublishedViews, ViewBuild
from tailrace.catalog.definition import ViewDef
from tailrace.database.progress import Say, Step
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

RELEASE = 5.0  # seconds that an interrupted build waits to say that it was left


class Builder:
    """Makes views of one store. `chunk` is how many rows of tables an epoch of a build takes in."""

    def __init__(
        self, store: Store, catalog: Catalog, epochs: Epochs, lock: EpochLock, spark: Callable[[], SparkSession]
    ) -> None:
        self._store, self._catalog, self._epochs, self._lock, self._spark = store, catalog, epochs, lock, spark
        self.chunk = construction.CHUNK
        self._active: set[str] = set()

    def start(self, views: Sequence[ViewDef], replaces: bool, say: Say) -> int | None:
        """Make views, the caller having the lock: None if they are done, else the build that `finish` goes on with."""
        self._catalog.clear_leftovers()
        rows = self._rows(views)
        if _few(rows, self.chunk) or not all(v.plan is not None and v.plan.is_chunked for v in views):
            self._at_once(views, replaces, say)
            return None
        return self._catalog.begin(views, replaces, construction.sort_tables(list(rows), rows), sum(rows.values()))

    def few(self, views: Sequence[ViewDef]) -> bool:
        """Whether the tables that views read are so small that they are built in one go."""
        return _few(self._rows(views), self.chunk)

    def _rows(self, views: Sequence[ViewDef]) -> dict[int, int]:
        by_number = {t.id: t for t in self._catalog.tables.values()}
        return {n: self._store.count(by_number[n]) for n in {number for view in views for number in view.tables}}

    def _at_once(self, views: Sequence[ViewDef], replaces: bool, say: Say) -> None:
        say(Step("refreshing the views there are"))
        self._epochs.refresh(maintained(self._catalog))
        draft = self._catalog.reserve_states(views)
        known = maintained(self._catalog)
        shared = frozenset(known.states.values())
        everything = Maintained(known.tables, [], {**known.states, **draft.states})
        try:
            say(Step(f"building {', '.join(v.name for v in draft.views)}"))
            self._epochs.build(
                everything, [recomputable_view(self._catalog, v, draft.views) for v in draft.views], shared
            )
            if replaces:
                self._compare(draft, committed_pin(self._store), say)
        except (EpochFailed, BuildFailed) as error:
            self._catalog.clear_leftovers()
            raise BuildFailed(name=draft.views[0].name, reason=error.reason) from error
        faults.point("build.publish")
        self._catalog.publish(draft)
        faults.point("build.published")
        self._catalog.clear_leftovers()

    def finish(self, name: str, number: int, say: Say) -> None:
        """Go on with a build to its end; interrupted, it is left to whoever comes next.

        Whoever was at it before may still be, and be the first to publish it.
        """
        self._active.add(name)
        try:
            with renewing(self._store, LEASES, construction.lease_key(name)):
                self._take_all(name, number, say)
                self._publish(name, number, say)
        except BuildFailed:
            if self._published(name, number):
                return
            there = self._catalog.builds.get(name)
            if there is not None and there.number == number:
                self.forget(name)
            raise
        except BaseException:
            with contextlib.suppress(EpochsLocked), self._lock.held(RELEASE):
                self._catalog.own(name, None)
            raise
        finally:
            self._active.discard(name)

    def _published(self, name: str, number: int) -> bool:
        view = self._catalog.views.get(name)
        return view is not None and view.state == number

    def _take_all(self, name: str, number: int, say: Say) -> None:
        """Take in all chunks there are; an interrupt is obeyed after the one under way."""
        asked = threading.Event()
        with caught(asked.set, signal.SIGINT):
            while (making := self._advance(name, number)) is not None:
                say(Step(f"building {name}", making.rows, making.total))
                if asked.is_set():
                    raise KeyboardInterrupt

    def forget(self, name: str) -> None:
        """Remove a build and what it has filled so far."""
        with self._lock.held():
            if (making := self._catalog.builds.get(name)) is not None:
                self._catalog.abandon(making)
            self._catalog.clear_leftovers()

    def busy(self, making: ViewBuild) -> bool:
        """Whether somebody is at a build: another process that lives, or another thread of this one."""
        return making.owned and (making.pid != os.getpid() or making.name in self._active)

    def _advance(self, name: str, number: int) -> ViewBuild | None:
        """Take one chunk in; None if there was none left to take."""
        with self._lock.held():
            build = planned_build(self._required(name, number))
            if build.is_complete:
                return None
            self._epochs.advance(maintained(self._catalog), build, self.chunk)
            return self._required(name, number)

    def _required(self, name: str, number: int) -> ViewBuild:
        making = self._catalog.builds.get(name)
        if making is None or making.number != number:
            raise BuildFailed(name=name, reason="it was dropped meanwhile")
        if making.failed:
            raise BuildFailed(name=name, reason=making.failed)
        return making

    def _publish(self, name: str, number: int, say: Say) -> None:
        """Let a complete build be seen, one that replaces views once it is known to be right."""
        making = self._required(name, number)
        if making.replaces:
            with pinned(self._store) as pin:
                try:
                    self._compare(making.unpublished, pin, say)
                except BuildFailed as error:
                    with self._lock.held():
                        self._required(name, number)
                        construction.give_up(self._store, name, error.reason)
                    raise
        with self._lock.held():
            self._required(name, number)
            faults.point("build.publish")
            self._catalog.publish(making.unpublished)
            faults.point("build.published")
            self._catalog.clear_leftovers()

    def _compare(self, draft: UnpublishedViews, pin: Pin, say: Say) -> None:
        for view in draft.views:
            say(Step(f"verifying {view.name}"))
            report = verify(self._spark(), self._store, view, self._catalog.query(view, draft.views), pin)
            if not report.ok:
                reason = f"it differs from its recomputation: {report.missing} rows missing, {report.extra} extra"
                raise BuildFailed(name=view.name, reason=reason)

    # builds that were left

    def left(self) -> list[ViewBuild]:
        """Builds that nobody is at any more."""
        return [m for m in self._catalog.builds.values() if not self.busy(m) and not m.failed]

    def take_over(self, name: str) -> None:
        with self._lock.held():
            self._catalog.own(name, construction.this_owner())

    def step(self, build: ViewBuild, say: Say) -> None:
        """Take one chunk of a build in, or publish it when there is none left."""
        name, number = build.name, build.number
        with contextlib.suppress(BuildFailed):  # it stays visible, with its reason
            if (making := self._advance(name, number)) is None:
                self._publish(name, number, say)
            else:
                say(Step(f"building {name}", making.rows, making.total))


def _few(rows: Mapping[int, int], chunk: int) -> bool:
    return sum(rows.values()) <= min(chunk, construction.AT_ONCE)
