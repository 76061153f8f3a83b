"""`tailrace.open()` and `Database`, the public API of a store."""

from __future__ import annotations

import os
import signal
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager, closing, suppress
from dataclasses import replace
from functools import cached_property
from pathlib import Path
from types import TracebackType
from typing import TYPE_CHECKING, Any

import pyarrow as pa

from tailrace import events
from tailrace.catalog.catalog import Catalog
from tailrace.catalog.definition import ViewDef
from tailrace.catalog.pinned import readable
from tailrace.codec.schema import TableDef
from tailrace.database.admission import admit, set_max_lag
from tailrace.database.expiry import ExpiredRows
from tailrace.database.failed_views import resume, shown_pin
from tailrace.database.freshness import catch_up
from tailrace.database.progress import OnStep, Step, ignore_step
from tailrace.database.signals import caught
from tailrace.database.snapshot import Snapshot
from tailrace.database.status import Status, status
from tailrace.database.table import Table
from tailrace.database.transaction import Transaction
from tailrace.database.view import View
from tailrace.database.waiting import PATIENCE, AtLeast, LatestEpoch
from tailrace.epochs import records
from tailrace.epochs.model import LARGEST, Epoch
from tailrace.errors import BuildFailed, Closed, EpochFailed, EpochsLocked, StoreError, ViewFailed
from tailrace.spark.spark_options import SparkOptions
from tailrace.store.base import Capability, Store
from tailrace.store.commits import read_committed
from tailrace.store.locks import EpochLock
from tailrace.store.requested import Requested
from tailrace.store.store_ref import EMBEDDED, StoreRef
from tailrace.types import quoted
from tailrace.verify.audit.findings import AuditReport, affected_views
from tailrace.verify.history.verdict import BOUND
from tailrace.verify.report import Report

if TYPE_CHECKING:  # modules that need Spark or sqlglot are imported where they are used
    from pyspark.sql import SparkSession

    from tailrace.database.backup import Saved
    from tailrace.database.ddl import StatementRunner
    from tailrace.database.outcome import Outcome
    from tailrace.database.view_builder import Builder
    from tailrace.epochs.protocol import Epochs
    from tailrace.verify.history.check_file import Checked
    from tailrace.verify.history.recorder import Recording


def open(
    path: str | os.PathLike[str],
    *,
    create: bool = False,
    nodes: int | None = None,
    shards: int | None = None,
    durable: bool | None = None,
    map_size: int | None = None,
    max_epoch: int = LARGEST,
    max_lag: int | None = None,
    spark: SparkSession | SparkOptions | None = None,
) -> Database:
    """Open a store by its directory or URL. With `create`, first creates it if it does not exist.

    nodes, shards   the number of partitions of tables (2) and of views (2 x nodes); fixed when the store is created
    durable         every write is on disk when it returns (the default); if False, a crash of the operating system may
                    lose writes; fixed when the store is created
    map_size        maximum size in bytes of each LMDB environment; can be raised while no process has the store open
    max_epoch       maximum number of operations of one epoch
    max_lag         operations that views may be behind before writers are throttled; stored, initially 1,000,000
    spark           the Spark session to use; by default the active one, or a local one started when needed, with
                    these `SparkOptions` or those of the environment

    Raises `OptionDiffers` if the store exists and has other nodes, shards or durability, or a larger map_size.
    """
    store = StoreRef.of(path).open(Requested(nodes, shards, durable, map_size), create=create)
    if max_lag is not None:
        set_max_lag(store, max_lag)
    return Database(store, max_epoch, spark)


def check(
    path: str | os.PathLike[str],
    *,
    search: bool = False,
    bound: int = BOUND,
    spark: SparkSession | SparkOptions | None = None,
    progress: OnStep = ignore_step,
) -> Checked:
    """Check a recording: the consistency level that each view reached, and why it did not reach a higher one.

    search   ignore recorded cuts; search for base states that explain the recorded view states
    bound    maximum number of base states to try per view in that search; each costs a query
    spark    the Spark session to use, or the options to start one, as in `open`
    progress called with each step: the view and the state that is checked
    """
    from tailrace.spark.failures import translated
    from tailrace.verify.history.check_file import check_file

    def on_state(view: str, number: int, total: int) -> None:
        progress(Step(f"checking {view}: state {number + 1:,} of {total:,}"))

    started = _session(spark)
    with translated(lambda: started):
        return check_file(started, Path(path), search=search, bound=bound, on_state=on_state)


def _session(given: SparkSession | SparkOptions | None, scheme: str = EMBEDDED) -> SparkSession:
    """A session for tasks that attach a store of this kind."""
    from tailrace.spark.session import session

    return session(None, given, scheme) if isinstance(given, SparkOptions) else session(given, None, scheme)


class Database:
    """Tables, views and epochs of one store. Safe to use from several threads."""

    def __init__(self, store: Store, max_epoch: int, spark: SparkSession | SparkOptions | None) -> None:
        self._store = store
        self._catalog = Catalog(store)
        self._given, self._session = spark, None
        self._lock = EpochLock(store)
        self._max_epoch = max_epoch
        self._guard = threading.Lock()  # protects _session; epochs and catalog changes use the store's locks
        self._stop_requested = False
        self._snapshots: set[Snapshot] = set()  # the open ones; `close()` closes them
        self._closed = False

    @cached_property
    def _epochs(self) -> Epochs:
        from tailrace.epochs.protocol import Epochs

        return Epochs(self._store, self._lock, lambda: self.spark, self._max_epoch)

    @cached_property
    def _builder(self) -> Builder:
        from tailrace.database.view_builder import Builder

        return Builder(self._store, self._catalog, self._epochs, self._lock, lambda: self.spark)

    @cached_property
    def _expired_rows(self) -> ExpiredRows:
        return ExpiredRows(self._store, self._catalog, lambda: self._epochs.clock())

    def _statement_runner(self, progress: OnStep | None, fresh: bool) -> StatementRunner:
        from tailrace.database.ddl import StatementRunner

        return StatementRunner(self, self._store, self._catalog, self._lock, lambda: self._builder, progress, fresh)

    @property
    def path(self) -> str:
        return self._store.path

    @property
    def spark(self) -> SparkSession:
        """The Spark session that Tailrace uses. Started at the first access."""
        with self._guard:
            if self._session is None:
                self._session = _session(self._given, self._store.ref.scheme)
            return self._session

    # SQL

    def sql(self, text: str, progress: OnStep | None = None) -> pa.Table | None:
        """Run statements separated by `;`. Returns the rows of the last one, if it has any.

        `progress` is called with each step; during a build, with the number of rows loaded so far.
        """
        rows = None
        for outcome in self.statements(text, progress):
            rows = outcome.rows
        return rows

    def statements(self, text: str, progress: OnStep | None = None, *, fresh: bool = False) -> Iterator[Outcome]:
        """Run statements separated by `;`, each when its outcome is requested. After an error the rest is not run.

        With `fresh`, queries of views catch up with the tables first.
        """
        self._check()
        return self._statement_runner(progress, fresh).run(text)

    def _create_failed(self, text: str, error: BuildFailed | ViewFailed) -> None:
        """Create a view that cannot be built now as one that has failed. Raises the error if no view is to blame."""
        from tailrace.spark.failures import is_outside

        cause = error.__cause__
        if (isinstance(cause, EpochFailed) and is_outside(cause)) or not self._epochs.jobs.can_run():
            raise error
        self._statement_runner(None, False).create_failed(text, error)

    def query(self, text: str, fresh: bool = False) -> pa.Table:
        """Run a SELECT over tables and views with Spark, all at one cut.

        That is the newest cut if the query reads tables only. If it reads views, it is the committed cut; with `fresh`,
        the views catch up with the tables first.
        """
        self._check()
        return self._statement_runner(None, fresh).query(text)[0]

    def explain(self, view: str, *, json: bool = False) -> Any:
        """How a view is maintained: its plan as a text tree, or with `json` as data."""
        self._check()
        from tailrace.database.describe import explain_data, explain_text

        definition = self._catalog.view(view)
        last = records.last_way(records.recent(self._store), definition.name)
        return (explain_data if json else explain_text)(self._catalog, definition, last)

    # tables and views

    def table(self, name: str) -> Table:
        self._check()
        definition = self._catalog.table(name)
        return Table(self._store, definition, lambda: self._newest_table(definition), lambda: admit(self._store))

    def view(self, name: str) -> View:
        self._check()

        def find_definition() -> ViewDef:
            self._check()
            return self._catalog.view(name)

        return View(self._store, find_definition(), LatestEpoch(self._store), find_definition)

    def snapshot(self, *, at_least: AtLeast | None = None, timeout: float | None = PATIENCE) -> Snapshot:
        """Tables and views at the committed cut, unchanged until the `with` block ends.

        With `at_least`, first waits until the committed cut covers that position, as reads of views do.
        """
        self._check()
        LatestEpoch(self._store).wait("the committed epoch", at_least, timeout)
        snapshot = Snapshot(self._store, self._catalog, lambda: self.spark, self._check, self._snapshots.discard)
        self._snapshots.add(snapshot)
        return snapshot

    def transaction(self) -> Transaction:
        """Writes to several tables, committed atomically when the `with` block ends."""
        self._check()
        self._store.require(Capability.TRANSACTIONS)
        return Transaction(self._store, self._catalog.table, self._newest_table, lambda: admit(self._store))

    def _newest_table(self, definition: TableDef) -> TableDef:
        """The table as it is now. Raises `UnknownName` if it was dropped, also if a new one has its name."""
        self._check()
        return self._catalog.newest(definition)

    def tables(self) -> list[str]:
        self._check()
        return sorted(self._catalog.tables)

    def views(self) -> list[str]:
        self._check()
        return sorted(self._catalog.views)

    def drop(self, name: str) -> None:
        """Drop a table or a view. Raises `InUse` if views depend on it."""
        self._check()
        kind = "VIEW" if name.lower() in self._catalog.views else "TABLE"
        self.sql(f"DROP {kind} {quoted(name)}")

    # maintenance

    def refresh(self, progress: Callable[[Epoch], None] | None = None, building: OnStep | None = None) -> Epoch:
        """Update every view with everything logged so far, and finish interrupted builds."""
        self._check()
        with self._store.lock("runner"):
            epoch = self._refresh(progress)
            while builds := self._builder.interrupted():
                self._builder.step(builds[0], building or ignore_step)
            return epoch

    def _refresh(
        self,
        progress: Callable[[Epoch], None] | None = None,
        *,
        eager: bool = True,
        is_stopped: Callable[[], bool] = lambda: False,
    ) -> Epoch:
        from tailrace.epochs.maintained import maintained
        from tailrace.epochs.protocol import OF_THE_HOLDER, OF_THE_HOLDER_WHILE_NONE

        with self._lock.held(), self._store.reading_once(OF_THE_HOLDER, OF_THE_HOLDER_WHILE_NONE):
            self._catalog.clear_leftovers()
            return self._epochs.refresh(maintained(self._catalog), progress, eager=eager, is_stopped=is_stopped)

    def resume(self, view: str, *, timeout: float | None = PATIENCE) -> None:
        """Try a failed view again now, without waiting until its tables change. Raises `ViewFailed` if it fails again.

        If another process runs epochs, waits up to `timeout` seconds (None: forever) until that process has tried.
        """
        self._check()
        resume(self._store, self._catalog.view(view).name, self._catalog.failed, lambda: self.refresh(), timeout)

    def catch_up(self) -> None:
        """Return when the views include everything logged now: run epochs, or wait for the process that runs them."""
        self._check()
        catch_up(self._store, self._refresh)

    def run(
        self,
        interval: float = 0.2,
        *,
        progress: Callable[[Epoch], None] | None = None,
        building: OnStep | None = None,
        until: Callable[[], bool] | None = None,
    ) -> signal.Signals | None:
        """Run epochs until stopped, with `interval` seconds between two of them, or less if rows of views are due.

        Continues interrupted builds, one chunk after each epoch. Deletes rows whose time to live has passed.
        Returns after the current epoch on SIGINT or SIGTERM (in the main thread), on `stop()` from another thread,
        or when `until()` is true. Returns the signal, if it was one. A second signal is not caught.
        """
        self._check()
        self._stop_requested = False
        with self._store.lock("runner"):
            events.started(self.path, self.tables(), self.views(), interval, os.getpid())
            self._epochs.report_failures()
            _ = self.spark  # started first, because Spark installs its own SIGINT handler
            return self._run(interval, progress, building, until)

    def _run(
        self,
        interval: float,
        progress: Callable[[Epoch], None] | None,
        building: OnStep | None,
        until: Callable[[], bool] | None,
    ) -> signal.Signals | None:
        with caught(self.stop, signal.SIGINT, signal.SIGTERM) as stopped, closing(self._epochs.trials):
            while not self._stop_requested and not (until and until()):
                has_more = self._expired_rows.step()
                epoch = self._refresh(eager=False, is_stopped=lambda: self._stop_requested)
                if progress and (epoch.operations or epoch.view_rows or epoch.failed or epoch.recovered):
                    progress(epoch)
                if self._stop_requested:
                    break
                if builds := self._builder.interrupted():
                    self._builder.step(builds[0], building or ignore_step)
                elif not has_more:
                    self._pause(min(interval, self._epochs.seconds_until(epoch.next_due)))
            self._epochs.trials.close()
            with suppress(EpochsLocked), self._lock.held():
                self._epochs.trials.end_abandoned()
        reason = stopped.by.name if stopped.by else "requested" if self._stop_requested else "done"
        events.stopped(self.path, reason, read_committed(self._store).epoch)
        return stopped.by

    def _pause(self, seconds: float) -> None:
        """Sleep in short pieces, so that `stop()` takes effect soon."""
        end = time.monotonic() + seconds
        while not self._stop_requested and (left := end - time.monotonic()) > 0:
            time.sleep(min(left, 0.05))

    def stop(self) -> None:
        """Make `run` return after the current epoch. For other threads and signal handlers."""
        self._stop_requested = True

    def verify(self, view: str) -> Report:
        """Recompute a view with Spark SQL at its cut, and compare the rows as multisets.

        A view that has failed is compared at its last good cut; the report says why it failed. Raises `ViewFailed` if
        the tables cannot be read at that cut any more.
        """
        self._check()
        from tailrace.spark.failures import translated
        from tailrace.verify.comparison import verify

        with (
            readable(self._store, self._catalog, [self._catalog.view(view).name]) as committed,
            translated(lambda: self.spark),
        ):
            definition = self._catalog.view(view)
            failed = self._catalog.failed
            pin = shown_pin(definition.name, failed, committed)
            report = verify(self.spark, self._store, definition, self._catalog.query(definition), pin)
            return replace(report, failure=failed[definition.name].message) if definition.name in failed else report

    def record(
        self, path: str | os.PathLike[str], views: Sequence[str] | None = None, *, overwrite: bool = False
    ) -> AbstractContextManager[Recording]:
        """Record the states of views (default: all), epoch by epoch, and the changes of their tables, during the block.

        The file at `path` is complete when the block ends. An existing file is an error, unless `overwrite` is true.
        `tailrace.check(path)` reports the consistency level of the recording.
        """
        self._check()
        names = [self._catalog.view(name).name for name in views] if views is not None else self.views()
        if not names:
            raise StoreError(message="no view to record; create one first")
        from tailrace.verify.history.recorder import recorded

        return recorded(self._store, self._catalog, Path(path), list(dict.fromkeys(names)), overwrite=overwrite)

    def audit(
        self,
        views: Sequence[str] | None = None,
        *,
        sample: float | None = None,
        start: Any = None,
        stop: Any = None,
        repair: bool = False,
        progress: OnStep | None = None,
    ) -> AuditReport:
        """Check the structure of the store and the content of these views (default: all), while epochs run.

        Views are recomputed at their cut and compared row by row: all rows, a `sample` (0 to 1) of their keys, or
        those with start <= key < stop. When all rows are compared, the views are also built in a scratch store, and
        their states compared byte by byte. `repair` fixes the findings in one epoch; the report then has the
        remaining and the repaired findings.
        """
        self._check()
        if repair:
            self._store.require(Capability.REPAIR)
        from tailrace.database.auditor import Auditor
        from tailrace.database.repair import Repairer
        from tailrace.spark.failures import translated
        from tailrace.verify.audit.view_rows import KeySelection

        selection = KeySelection(sample, start, stop)
        on_step = progress or ignore_step
        auditor = Auditor(self._store, self._catalog, lambda: self.spark)
        with translated(lambda: self.spark):
            report = auditor.audit(views, selection, on_step)
        if not repair or not any(f.repairable for f in report.findings):
            return report
        on_step(Step("repairing"))
        with self._lock.held():
            wrong_views = affected_views(report.findings)
            Repairer(self._store, self._catalog, self._epochs, self._lock).repair(
                lambda: auditor.structure(tables=selection.selects_all), wrong_views
            )
        with translated(lambda: self.spark):
            return auditor.audit(views, selection, on_step).after(report)

    def backup(self, directory: str | os.PathLike[str], progress: OnStep | None = None) -> Saved:
        """Back up the store into a new directory while writers and epochs run. `tailrace.restore` reads it.

        The backup has all tables at one cut and all views at one epoch. The directory appears when it is complete.
        """
        self._check()
        self._store.require(Capability.BACKUP)
        from tailrace.database.backup import back_up

        return back_up(self._store, Path(os.path.abspath(directory)), progress or ignore_step)

    def dump(self, directory: str | os.PathLike[str], progress: OnStep | None = None) -> Saved:
        """Write all definitions as SQL and the rows of all tables as Parquet files into a new directory, at one cut.

        `tailrace.restore` makes a store of it, also with other numbers of nodes and shards.
        """
        self._check()
        from tailrace.database.dump import dump

        return dump(self._store, self._catalog, Path(os.path.abspath(directory)), progress or ignore_step)

    def status(self, *, sizes: bool = False) -> Status:
        """Tables, views, the committed epoch, and how far behind the views are.

        With `sizes`, also rows and bytes. That reads a part of the store: milliseconds, or seconds if it is very large.
        """
        self._check()
        return status(self._store, self._catalog, sizes=sizes)

    # closing

    def close(self) -> None:
        """Close the store. The Spark session keeps running, because it may have other users."""
        if not self._closed:
            for snapshot in list(self._snapshots):
                snapshot.close()
            self._closed = True
            self.stop()
            self._store.close()

    def __enter__(self) -> Database:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def __repr__(self) -> str:
        return f"Database({self.path!r})"

    def _check(self) -> None:
        if self._closed:
            raise Closed(path=self.path)
