"""Epochs: intent, work, commit, and recovery. The only place that knows their order.

    intent    "epoch e covers (start, end]", written durably before anything is touched
    work      one Spark job: deltas of the range, applied shard by shard
    commit    "epoch e is committed at cut `end`": readers of all views move at this moment

After a crash the intent is still there and the work is done again over the same range. Shards that have
their part give the same deltas again and keep what they have, so it makes no difference where it stopped.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import NamedTuple

from pyspark.errors import PySparkException
from pyspark.sql import DataFrame, SparkSession

from tailrace.errors import EpochFailed
from tailrace.maintain.compile import Compiler, ViewSink
from tailrace.maintain.stages import Stages
from tailrace.maintain.typer import reason
from tailrace.source.assignment import Assignment, Handed, hand_out
from tailrace.store.base import Cut, Store, TableDef
from tailrace.store.pins import oldest_pinned

SMALL = 50_000  # operations up to which an epoch runs without shuffles
REUSED = 8  # frames of small epochs that are kept: one for each set of tables that change together
LARGEST = 5_000_000  # operations that one epoch takes on at most


@dataclass(frozen=True)
class Committed:
    """The epoch readers see, and the cut it stands for."""

    epoch: int
    cut: Cut
    at: float


@dataclass(frozen=True)
class Epoch:
    """What a refresh did. `operations` is 0 and `number` the last one's when there was nothing to do."""

    number: int
    operations: int
    seconds: float
    view_rows: int
    cut: Cut
    views: int

    @property
    def rate(self) -> float:
        """Operations per second."""
        return self.operations / self.seconds if self.seconds else 0.0


@dataclass(frozen=True)
class Maintained:
    """All that is maintained: tables by id, views, and the number of every state by its fingerprint."""

    tables: Mapping[int, TableDef]
    views: Sequence[ViewSink]
    states: Mapping[str, int]


class Frame(NamedTuple):
    """What applies an epoch to all views, and whether Spark may run the very same plan again."""

    frame: DataFrame | None
    reusable: bool


def _tasks(shards: int, spark: SparkSession) -> int:
    """Tasks per stage: as many as there are cores, but each shard wholly in one task."""
    try:
        cores = spark.sparkContext.defaultParallelism
    except PySparkException:  # Spark Connect has no context
        return shards
    return max(t for t in range(1, shards + 1) if shards % t == 0 and (t <= max(cores, 2) or t == 2))


def committed(store: Store) -> Committed:
    found = store.document("committed")
    if found is None:
        return Committed(0, Cut(0, (0,) * store.nodes), 0.0)
    return Committed(found["epoch"], Cut.from_json(found["cut"]), found["at"])


class Epochs:
    """Runs epochs on a store. The caller holds the locks."""

    def __init__(
        self, store: Store, spark: Callable[[], SparkSession], largest: int = LARGEST, small: int = SMALL
    ) -> None:
        self._store, self._spark, self._largest, self.small = store, spark, largest, small
        self._frames: dict[tuple[tuple[int, ...], frozenset[int] | None, int], Frame] = {}

    def refresh(self, maintained: Maintained, progress: Callable[[Epoch], None] | None = None) -> Epoch:
        """Bring all views to the newest cut there is now: one epoch, or several if one would be too large."""
        began, target = time.monotonic(), self._store.newest_cut()
        operations = rows = 0
        done = committed(self._store)
        while done.cut.transaction < target.transaction or self._store.document("intent"):
            epoch = self._next(done, maintained)
            if progress:
                progress(epoch)
            operations, rows = operations + epoch.operations, rows + epoch.view_rows
            done = committed(self._store)
        seconds = time.monotonic() - began
        return Epoch(done.epoch, operations, seconds, rows, done.cut, len(maintained.views))

    def _next(self, done: Committed, maintained: Maintained) -> Epoch:
        began = time.monotonic()
        number, end = self._intend(done)
        touched = self._store.touched(done.cut, end)
        operations = end.operations - done.cut.operations
        rows = 0
        if maintained.views:
            work = Assignment(number, self.keep(done.epoch), done.cut, end)
            rows = self._work(work, maintained, frozenset(touched), operations)
        self._store.sync()
        document = {"epoch": number, "cut": [end.transaction, end.offsets], "at": time.time()}
        self._store.change_documents({"committed": document, "intent": None})
        self.trim()
        return Epoch(number, operations, time.monotonic() - began, rows, end, len(maintained.views))

    def _intend(self, done: Committed) -> tuple[int, Cut]:
        """The epoch to run: the one left open by a crash, or a new one, written down first."""
        found = self._store.document("intent")
        if found is not None and found["epoch"] == done.epoch + 1:
            return found["epoch"], Cut.from_json(found["end"])
        end = self._store.cut_after(done.cut, self._largest)
        intent = {"epoch": done.epoch + 1, "end": [end.transaction, end.offsets]}
        self._store.change_documents({"intent": intent})
        return done.epoch + 1, end

    def build(self, maintained: Maintained, view: ViewSink, fixed: frozenset[int]) -> int:
        """Fill a new view, and its states that nobody keeps yet, from the tables at the committed cut."""
        done = committed(self._store)
        work = Assignment(done.epoch, done.epoch, None, done.cut, fixed)
        only = Maintained(maintained.tables, [view], maintained.states)
        return self._work(work, only, None, done.cut.operations)

    def _work(self, work: Assignment, maintained: Maintained, touched: frozenset[int] | None, operations: int) -> int:
        """Run the job; the number of view rows written."""
        spark = self._spark()
        tasks = 1 if operations <= self.small else _tasks(self._store.shards, spark)
        spark.conf.set("spark.sql.shuffle.partitions", str(tasks))
        try:
            frame = self._frame(hand_out(spark, work), work.blank, maintained, touched, tasks)
            return sum(row.rows for row in frame.collect()) if frame is not None else 0
        except PySparkException as error:
            raise EpochFailed(epoch=work.epoch, reason=reason(error)) from error

    def _frame(
        self, handed: Handed, blank: bool, maintained: Maintained, touched: frozenset[int] | None, tasks: int
    ) -> DataFrame | None:
        """The job's frame: one made before for the same views and tables, if there is.

        A frame with a shuffle is wrapped: Spark then plans it anew instead of answering from the files of the
        epoch before.
        """
        plan = (tuple(view.state for view in maintained.views), touched, tasks)
        kept = self._frames.get(plan)
        if kept is None:
            stages = Stages(self._spark(), self._store.path, self._store.nodes, self._store.shards, tasks, handed)
            compiler = Compiler(stages, maintained.tables, maintained.states, touched, blank=blank)
            kept = Frame(compiler.sinks(maintained.views), compiler.reusable)
            if not blank and handed.fixed is None:
                while len(self._frames) >= REUSED:
                    self._frames.pop(next(iter(self._frames)))
                self._frames[plan] = kept
        return kept.frame if kept.frame is None or kept.reusable else kept.frame.alias("again")

    def keep(self, committed_epoch: int) -> int:
        """The newest epoch whose undo records nobody needs: readers may be at the committed or a pinned one."""
        pinned = oldest_pinned(self._store)
        return committed_epoch if pinned is None else min(committed_epoch, pinned.epoch)

    def trim(self) -> None:
        """Let go of the log that every view and every reader has behind it."""
        done, pinned = committed(self._store), oldest_pinned(self._store)
        cut = done.cut if pinned is None or pinned.cut.transaction > done.cut.transaction else pinned.cut
        self._store.trim(cut)
