"""A store opened for use: the public surface."""

from __future__ import annotations

import os
import signal
import threading
import time
from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager
from functools import cached_property
from pathlib import Path
from types import TracebackType
from typing import TYPE_CHECKING, Any

import pyarrow as pa

from tailrace.catalog.catalog import Catalog
from tailrace.catalog.definition import ViewDef
from tailrace.catalog.pinned import readable
from tailrace.codec.schema import TableDef
from tailrace.database.admission import admit, allow
from tailrace.database.progress import Say, Step
from tailrace.database.signals import caught
from tailrace.database.snapshot import Snapshot
from tailrace.database.status import Status, status
from tailrace.database.table import Table
from tailrace.database.transaction import Transaction
from tailrace.database.view import View
from tailrace.database.waiting import PATIENCE, AtLeast, Latest
from tailrace.epochs import records
from tailrace.epochs.model import LARGEST, Epoch
from tailrace.errors import Closed, StoreError
from tailrace.store.base import Capability, Store
from tailrace.store.lmdb import settings
from tailrace.store.lmdb.store import LmdbStore
from tailrace.store.locks import EpochLock
from tailrace.store.reference import StoreRef
from tailrace.types import quoted
from tailrace.verify.audit.findings import AuditReport, affected_views
from tailrace.verify.history.verdict import BOUND
from tailrace.verify.report import Report

if TYPE_CHECKING:  # modules that need Spark or sqlglot are imported where they are used
    from pyspark.sql import SparkSession

    from tailrace.database.creation import Builder
    from tailrace.database.ddl import Runner
    from tailrace.epochs.protocol import Epochs
    from tailrace.verify.history.check_file import Checked
    from tailrace.verify.history.recorder import Recording


def open(
    path: str | os.PathLike[str],
    *,
    create: bool = True,
    nodes: int = 2,
    shards: int | None = None,
    durable: bool = True,
    map_size: int | None = None,
    max_epoch: int = LARGEST,
    max_lag: int | None = None,
    spark: SparkSession | None = None,
) -> Database:
    """Open the store in a directory, making it if there is none (and `create` is true).

    nodes, shards   how many parts tables and views are cut into; fixed when the store is made
    durable         every write is on disk when it returns; False trusts the operating system not to crash
    map_size        the most bytes that each part of the store may grow to; may be raised when no process has it open
    max_epoch       the most operations one epoch takes on
    max_lag         operations that views may be behind before writers are slowed; kept in the store, 1,000,000 at first
    spark           a session to run in; by default the active one, or a local one started when needed
    """
    directory = Path(StoreRef.of(path).location)
    if create and settings.can_create(directory):
        size = map_size or settings.MAP_SIZE
        settings.create(
            directory, settings.Settings(nodes=nodes, shards=shards or 2 * nodes, map_size=size, durable=durable)
        )
    elif map_size is not None:
        settings.enlarge(directory, map_size)
    store = LmdbStore(directory)
    if max_lag is not None:
        allow(store, max_lag)
    return Database(store, max_epoch, spark)


def check(
    path: str | os.PathLike[str], *, search: bool = False, bound: int = BOUND, spark: SparkSession | None = None
) -> Checked:
    """How consistent the views of a recording were: the level that each reached, and if not a higher one, why not.

    search   judge by the states alone, even if they name their cuts
    bound    the most base states that are looked at for each view then; each costs a query
    spark    a session to run in; by default the active one, or a local one started when needed
    """
    from tailrace.spark.session import session
    from tailrace.verify.history.check_file import check_file

    return check_file(session(spark), Path(path), search=search, bound=bound)


class Database:
    """Tables, views and epochs of one store. Safe to use from several threads."""

    def __init__(self, store: Store, max_epoch: int, spark: SparkSession | None) -> None:
        self._store = store
        self._catalog = Catalog(store)
        self._given, self._session = spark, None
        self._lock = EpochLock(store)
        self._max_epoch = max_epoch
        self._guard = threading.Lock()  # of the session; epochs and catalog changes have the store's own locks
        self._asked_to_stop = False
        self._snapshots: set[Snapshot] = set()  # that are open: they are closed with the store
        self._closed = False

    @cached_property
    def _epochs(self) -> Epochs:
        from tailrace.epochs.protocol import Epochs

        return Epochs(self._store, self._lock, lambda: self.spark, self._max_epoch)

    @cached_property
    def _builder(self) -> Builder:
        from tailrace.database.creation import Builder

        return Builder(self._store, self._catalog, self._epochs, self._lock, lambda: self.spark)

    def _runner(self, progress: Say | None = None) -> Runner:
        from tailrace.database.ddl import Runner

        return Runner(self, self._store, self._catalog, self._lock, lambda: self._builder, progress)

    @property
    def path(self) -> str:
        return self._store.path

    @property
    def spark(self) -> SparkSession:
        """The Spark session Tailrace uses, started when first needed."""
        with self._guard:
            if self._session is None:
                from tailrace.spark.session import session

                self._session = session(self._given)
            return self._session

    # SQL

    def sql(self, text: str, progress: Say | None = None) -> pa.Table | None:
        """Run statements (`;` between them); the rows of the last one if it has any.

        `progress` is told each step, and while a view is built how many rows of its tables it has.
        """
        self._check()
        return self._runner(progress).run(text)

    def query(self, text: str) -> pa.Table:
        """Any SELECT over tables and views, run by Spark at the committed epoch, all at one cut."""
        self._check()
        return self._runner().query(text)

    def explain(self, view: str, *, json: bool = False) -> Any:
        """How a view is maintained: a readable tree, or with `json` the same as data."""
        self._check()
        from tailrace.database.describe import explain_data, explain_text

        definition = self._catalog.view(view)
        last = records.last_way(records.recent(self._store), definition.name)
        return (explain_data if json else explain_text)(self._catalog, definition, last)

    # tables and views

    def table(self, name: str) -> Table:
        self._check()
        definition = self._catalog.table(name)
        return Table(self._store, definition, lambda: self._still(definition), lambda: admit(self._store))

    def view(self, name: str) -> View:
        self._check()

        def find() -> ViewDef:
            self._check()
            return self._catalog.view(name)

        return View(self._store, find(), Latest(self._store), find)

    def snapshot(self, *, at_least: AtLeast | None = None, timeout: float | None = PATIENCE) -> Snapshot:
        """Tables and views at one cut, the committed one, for as long as the `with` block lasts.

        With `at_least` it waits for a cut that covers a position, as reads of views do.
        """
        self._check()
        Latest(self._store).wait("the committed epoch", at_least, timeout)
        snapshot = Snapshot(self._store, self._catalog, lambda: self.spark, self._check, self._snapshots.discard)
        self._snapshots.add(snapshot)
        return snapshot

    def transaction(self) -> Transaction:
        """Writes to several tables that become one, all or nothing, when the `with` block ends."""
        self._check()
        self._store.require(Capability.TRANSACTIONS)
        return Transaction(self._store, self._catalog.table, self._still, lambda: admit(self._store))

    def _still(self, definition: TableDef) -> None:
        """Refuse a handle whose table was dropped: what it says would be lost, or out of date."""
        self._check()
        self._catalog.require(definition)

    def tables(self) -> list[str]:
        self._check()
        return sorted(self._catalog.tables)

    def views(self) -> list[str]:
        self._check()
        return sorted(self._catalog.views)

    def drop(self, name: str) -> None:
        """Drop a table or a view; `InUse` if views depend on it."""
        self._check()
        kind = "VIEW" if name.lower() in self._catalog.views else "TABLE"
        self.sql(f"DROP {kind} {quoted(name)}")

    # maintenance

    def refresh(self, progress: Callable[[Epoch], None] | None = None, building: Say | None = None) -> Epoch:
        """Bring every view up to everything logged so far, and builds of views that were left to their end."""
        self._check()
        with self._store.lock("runner"):
            epoch = self._refresh(progress)
            while left := self._builder.left():
                self._builder.step(left[0], building or (lambda _: None))
            return epoch

    def _refresh(self, progress: Callable[[Epoch], None] | None = None) -> Epoch:
        from tailrace.epochs.maintained import maintained

        with self._lock.held():
            self._catalog.clear_leftovers()
            return self._epochs.refresh(maintained(self._catalog), progress)

    def run(
        self,
        interval: float = 0.2,
        *,
        progress: Callable[[Epoch], None] | None = None,
        building: Say | None = None,
        until: Callable[[], bool] | None = None,
    ) -> None:
        """Refresh again and again, `interval` seconds after the last epoch, until stopped.

        Builds of views that were left are continued, a chunk with each epoch.
        Ends cleanly after the epoch under way on SIGINT or SIGTERM (in the main thread), on `stop()` from
        another thread, or when `until()` is true.
        """
        self._check()
        self._asked_to_stop = False
        with self._store.lock("runner"):
            _ = self.spark  # Spark takes SIGINT for itself when it starts, so it starts before we do
            self._run(interval, progress, building, until)

    def _run(
        self,
        interval: float,
        progress: Callable[[Epoch], None] | None,
        building: Say | None,
        until: Callable[[], bool] | None,
    ) -> None:
        with caught(self.stop, signal.SIGINT, signal.SIGTERM):
            while not self._asked_to_stop and not (until and until()):
                epoch = self._refresh()
                if progress and epoch.operations:
                    progress(epoch)
                if left := self._builder.left():
                    self._builder.step(left[0], building or (lambda _: None))
                else:
                    self._pause(interval)

    def _pause(self, seconds: float) -> None:
        """Sleep in short pieces: a signal may come while this thread holds no lock at all."""
        end = time.monotonic() + seconds
        while not self._asked_to_stop and (left := end - time.monotonic()) > 0:
            time.sleep(min(left, 0.05))

    def stop(self) -> None:
        """End a `run` after the epoch under way; from another thread or a signal handler."""
        self._asked_to_stop = True

    def verify(self, view: str) -> Report:
        """Recompute a view by Spark SQL at its cut and compare, as multisets."""
        self._check()
        from tailrace.verify.comparison import verify

        with readable(self._store, self._catalog, [self._catalog.view(view).name]) as pin:
            definition = self._catalog.view(view)
            return verify(self.spark, self._store, definition, self._catalog.query(definition), pin)

    def record(
        self, path: str | os.PathLike[str], views: Sequence[str] | None = None
    ) -> AbstractContextManager[Recording]:
        """Record what views (all by default) show, epoch by epoch, and what happens to their tables, inside the block.

        The file at `path` is there when the block ends; `tailrace.check(path)` says how consistent it all was.
        """
        self._check()
        names = [self._catalog.view(name).name for name in views] if views is not None else self.views()
        if not names:
            raise StoreError(message="there is no view to record; create one first")
        from tailrace.verify.history.recorder import recorded

        return recorded(self._store, self._catalog, Path(path), list(dict.fromkeys(names)))

    def audit(
        self,
        views: Sequence[str] | None = None,
        *,
        sample: float | None = None,
        start: Any = None,
        stop: Any = None,
        repair: bool = False,
        progress: Say | None = None,
    ) -> AuditReport:
        """Look for anything wrong with the store and with these views, all by default, while maintenance goes on.

        Views are recomputed at their cut and compared row by row: whole, a `sample` (0 to 1) of their keys, or those
        with start <= key < stop. Whole ones are also built anew beside, and all states behind them compared byte by
        byte. With `repair` what was found is mended in one epoch; the report says what is left and what was mended.
        """
        self._check()
        if repair:
            self._store.require(Capability.REPAIR)
        from tailrace.database.auditor import Auditor
        from tailrace.database.repair import Repairer
        from tailrace.verify.audit.view_rows import KeySelection

        selection = KeySelection(sample, start, stop)
        say = progress or (lambda _: None)
        auditor = Auditor(self._store, self._catalog, lambda: self.spark)
        report = auditor.audit(views, selection, say)
        if not repair or not any(f.repairable for f in report.findings):
            return report
        say(Step("repairing"))
        with self._lock.held():
            wrong = affected_views(report.findings)
            Repairer(self._store, self._catalog, self._epochs, self._lock).repair(
                lambda: auditor.structure(tables=selection.selects_all), wrong
            )
        return auditor.audit(views, selection, say).after(report)

    def status(self) -> Status:
        """Tables, views, the committed epoch, and how far behind the views are."""
        self._check()
        return status(self._store, self._catalog)

    # life

    def close(self) -> None:
        """Close the store. The Spark session, which may have other users, stays."""
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
