"""Epochs: intent, work, commit, and recovery. The only place that knows their order.

    intent    "epoch e covers (start, end]", written durably before anything is touched
    work      a Spark job: deltas of the range, applied shard by shard; another for views that are recomputed
    commit    "epoch e is committed at cut `end`": readers of all views move at this moment

After a crash the intent is still there and the work is done again over the same range. Shards that have
their part give the same deltas again and keep what they have, so it makes no difference where it stopped.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import replace
from typing import Any, NamedTuple

from msgspec import structs
from pyspark.errors import PySparkException
from pyspark.sql import DataFrame, SparkSession

from tailrace import faults
from tailrace.catalog import construction
from tailrace.catalog.construction import BUILDS, Load, PlannedBuild
from tailrace.epochs import records
from tailrace.epochs.maintained import Maintained
from tailrace.epochs.model import INTENT, LARGEST, Epoch, Intent
from tailrace.epochs.recompute import RecomputableView, replaced
from tailrace.errors import EpochFailed
from tailrace.plan.physical.estimate import OVERHEAD
from tailrace.plan.physical.physical_plan import ViewSink
from tailrace.plan.physical.sizing import SMALL, fits_one_task
from tailrace.plan.policy import Way
from tailrace.rules.reset import sweep
from tailrace.spark.compile import Compiler
from tailrace.spark.failures import FAILURES, epoch_failed, is_hopeless, is_outside
from tailrace.spark.session import is_running, session
from tailrace.spark.stages import Stages, set_assignment
from tailrace.store.base import Cut, Store
from tailrace.store.commits import COMMITTED, Committed, committed
from tailrace.store.locks import Tenure
from tailrace.store.parts import Part, next_chunk
from tailrace.store.pins import oldest_pinned
from tailrace.task.assignment import Assignment, AssignmentSource

__all__ = ["Epoch", "Epochs", "Maintained"]

REUSED = 8  # frames of small epochs that are kept: one for each set of tables that change together
MENDED = "an audit found it damaged"


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


class Epochs:
    """Runs epochs on a store. The caller holds the epoch lock."""

    def __init__(
        self,
        store: Store,
        tenure: Tenure,
        spark: Callable[[], SparkSession],
        largest: int = LARGEST,
        small: int = SMALL,
    ) -> None:
        self._store, self._tenure, self._spark, self._largest, self.small = store, tenure, spark, largest, small
        self.overhead = OVERHEAD
        self._looked: tuple[Cut, Cut, dict[int, int]] | None = None
        self._frames: dict[tuple[tuple[int, ...], frozenset[int] | None, int, str | None], Frame] = {}

    def refresh(self, maintained: Maintained, progress: Callable[[Epoch], None] | None = None) -> Epoch:
        """Bring all views to the newest cut there is now: one epoch, or several if one would be too large."""
        began, target = time.monotonic(), self._store.newest_cut()
        operations = rows = 0
        refreshed: dict[str, Way] = {}
        done = committed(self._store)
        while done.cut.is_before(target) or self._store.document(INTENT) is not None:
            epoch = self._next(done, maintained)
            if progress:
                progress(epoch)
            operations, rows = operations + epoch.operations, rows + epoch.view_rows
            refreshed.update(epoch.refreshed)
            done = committed(self._store)
        seconds = time.monotonic() - began
        return Epoch(done.epoch, operations, seconds, rows, done.cut, maintained.count, refreshed)

    def advance(self, maintained: Maintained, build: PlannedBuild, rows: int) -> Epoch:
        """One epoch in which a build takes in its next chunk, of so many rows or so."""
        listed = [maintained.tables[number] for number in build.tables]
        chunk = next_chunk(self._store, listed, build.loaded, rows, construction.CHUNK_BYTES)
        return self._next(committed(self._store), maintained, Load(build.name, *chunk) if chunk else None)

    def repair(self, maintained: Maintained, views: Mapping[str, int], end: Cut, mend: Callable[[], None]) -> Epoch:
        """One epoch that recomputes views (names and states) at a cut and writes what differs.

        At the committed cut it changes nothing but what was wrong; with a later one, and all views, it passes over the
        log up to there without reading it. `mend` is called when the epoch is written down: whatever it changes, what
        rests on it is computed anew.
        """
        done = committed(self._store)
        ways = {name: Way("recomputed", MENDED) for name in views}
        intent = Intent(self._next_number(done), end, ways, None, tuple(sorted(views.values())), self._tenure.term)
        self._store.change_documents({INTENT.name: intent}, term=intent.term)
        faults.point("epoch.intent")
        mend()
        return self._next(done, maintained)

    def _next(self, done: Committed, maintained: Maintained, load: Load | None = None) -> Epoch:
        began, self._looked = time.monotonic(), None
        maintained = replace(maintained, builds=construction.reread_progress(self._store, maintained.builds))
        intent = self._intend(done, maintained, load)
        operations = intent.end.operations - done.cut.operations
        rows = self._refresh_all(done, intent, maintained)
        for build in maintained.builds:
            self._build_on(done, intent, maintained, build)
        self._store.sync()
        faults.point("epoch.commit")
        seconds, now = time.monotonic() - began, time.time()
        document = Committed(intent.epoch, intent.end, now)
        keep = self.keep(done.epoch)
        noted = records.note(self._store, intent.epoch, intent.end, now, seconds, operations, intent.ways, keep)
        self._store.change_documents(
            {COMMITTED.name: document, INTENT.name: None, **noted, **self._moved(intent.load, maintained)},
            term=intent.term,
        )
        faults.point("epoch.committed")
        self.trim()
        return Epoch(intent.epoch, operations, seconds, rows, intent.end, maintained.count, intent.ways)

    def _intend(self, done: Committed, maintained: Maintained, load: Load | None) -> Intent:
        """The epoch to run: the one left open by a crash, or a new one, written down first."""
        left, term = self._store.document(INTENT), self._tenure.term
        if left is not None and left.epoch > done.epoch:
            return left if left.term == term else self._take_over(left, term)
        end = self._store.cut_after(done.cut, self._largest)
        intent = Intent(self._next_number(done), end, self._choose(done.cut, end, maintained), load, term=term)
        self._store.change_documents({INTENT.name: intent}, term=term)
        faults.point("epoch.intent")
        return intent

    def _next_number(self, done: Committed) -> int:
        """A number that no epoch has used: a task that outlived its driver may still name one that was taken back."""
        return max(done.epoch, self._tenure.burnt) + 1

    def _take_over(self, left: Intent, term: int) -> Intent:
        """An epoch that another process left open, from now on this one's: tasks of the other one are fenced off."""
        self._store.fence(term)
        intent = structs.replace(left, term=term)
        self._store.change_documents({INTENT.name: intent}, term=term)
        return intent

    def _build_on(self, done: Committed, intent: Intent, maintained: Maintained, build: PlannedBuild) -> None:
        """Apply the epoch to views that are being built: changes of what they have, and the chunk that comes."""
        load = intent.load if intent.load is not None and intent.load.build == build.name else None
        operations = self._touched(done.cut, intent.end, ()) if build.is_begun else {}
        concerned = {table for table in build.tables if table in operations and build.has_rows_of(table)}
        if load is None and not concerned:
            return
        coming = build.loaded if load is None else load.coming
        concerned |= {table for table, bounds in coming.items() if build.loaded.get(table) != bounds}
        part = Part(build.loaded, coming)
        work = self._assignment(done, intent, part)
        only = Maintained(maintained.tables, build.views, build.states)
        size = sum(operations.get(table, 0) for table in concerned) + (load.rows if load else 0)
        # at first a view without GROUP BY gets its one row, which is there even if no row ever comes
        touched = frozenset(concerned) if build.is_begun else None
        given_up = False
        while not given_up:
            alive = is_running(self._spark())
            if load is not None:
                faults.point("build.chunk")
            try:
                self._work(work, only, touched, size, build.name)
                return
            except EpochFailed as error:
                if not alive or is_outside(error):
                    raise
                given_up = self._stumbled(build, error)
                if not given_up and not is_running(self._spark()):
                    raise

    def _stumbled(self, build: PlannedBuild, error: EpochFailed) -> bool:
        """Note that a build failed; whether it is given up, so that other views can go on."""
        if is_hopeless(error):
            construction.give_up(self._store, build.name, error.reason)
            return True
        return construction.note_failure(self._store, build.name, error.reason)

    def _touched(self, start: Cut, end: Cut, views: Iterable[ViewSink]) -> dict[int, int]:
        """The operations of each table in the epoch; its log is looked through once for all who ask.

        The tasks of these views check every entry of the range. If none of them has to run, it is done here.
        """
        if self._looked is None or self._looked[:2] != (start, end):
            counts = self._store.touched(start, end, checked=False)
            if not any(counts.keys() & view.plan.tables for view in views):
                counts = self._store.touched(start, end)
            self._looked = start, end, counts
        return self._looked[2]

    def _moved(self, load: Load | None, maintained: Maintained) -> dict[str, Any]:
        """The documents that move a build past the chunk it has taken in, unless it was given up."""
        build = next((b for b in maintained.builds if load is not None and b.name == load.build), None)
        document = None if build is None else self._store.document(BUILDS, build.name)
        if load is None or build is None or document is None or document.failed:
            return {}
        return construction.progress_document(build, load)

    def _choose(self, start: Cut, end: Cut, maintained: Maintained) -> dict[str, Way]:
        """How to refresh each view that has a choice and whose tables have changed."""
        if not maintained.recomputable:
            return {}
        operations = self._touched(start, end, maintained.views)
        concerned = [view for view in maintained.recomputable if view.tables & operations.keys()]
        read = {number for view in concerned for number in view.tables}
        rows = {number: self._store.count(maintained.tables[number]) for number in read}
        return {view.name: view.way(operations, rows, self.overhead) for view in concerned}

    def _refresh_all(self, done: Committed, intent: Intent, maintained: Maintained) -> int:
        """Apply the epoch to all views; the number of view rows written."""
        if not maintained.count:
            return 0
        work = self._assignment(done, intent)
        chosen = [v for v in maintained.recomputable if v.state in intent.again or intent.recomputes(v.name)]
        again = {v.state for v in chosen} | set(intent.again)
        planned = [*maintained.views, *(v.sink for v in maintained.recomputable if v.sink is not None)]
        views = [v for v in planned if v.state not in again]
        rows = 0
        if views:
            touched = frozenset(self._touched(done.cut, intent.end, views))
            operations = intent.end.operations - done.cut.operations
            rows = self._work(work, replace(maintained, views=views), touched, operations) if touched else 0
        if not again:
            return rows
        anew, others = [v for v in planned if v.state in again], maintained.states_of(views)
        queries = [v for v in chosen if v.sink is None]
        return rows + self._recompute(work, replace(maintained, views=anew), queries, others)

    def _assignment(self, done: Committed, intent: Intent, part: Part | None = None) -> Assignment:
        return Assignment(intent.epoch, self.keep(done.epoch), done.cut, intent.end, part=part, term=intent.term)

    def _recompute(
        self, work: Assignment, maintained: Maintained, queries: Sequence[RecomputableView], others: frozenset[int]
    ) -> int:
        """Compute views anew at the end of the epoch, by plan or by query, with all states that are theirs alone.

        States that other views keep (`others`) were brought to the epoch by deltas before.
        """
        work = structs.replace(work, start=None, fixed=others, reset=True)
        planned = maintained.views
        rows = self._work(work, maintained, None, self._size(maintained)) if planned else 0
        for view in queries:
            rows += self._store_query(work, view, self._counted(maintained, view.tables))
        views = [*(v.state for v in planned), *(v.state for v in queries)]
        sweep(self._store, [*views, *maintained.states_of(planned) - others], work.epoch, work.keep, work.term)
        return rows

    def _size(self, maintained: Maintained) -> int:
        """The rows of all tables that these views read."""
        return self._counted(maintained, {number for view in maintained.views for number in view.plan.tables})

    def _counted(self, maintained: Maintained, numbers: Iterable[int]) -> int:
        return sum(self._store.count(maintained.tables[number]) for number in numbers)

    def _store_query(self, work: Assignment, view: RecomputableView, size: int) -> int:
        try:
            spark = session(self._spark())
            tasks = 1 if size <= self.small else _tasks(self._store.shards, spark)
            spark.conf.set("spark.sql.shuffle.partitions", str(tasks))
            handed = set_assignment(spark, work)
            stages = Stages(spark, self._store, tasks, handed)
            return sum(row.rows for row in replaced(spark, self._store, stages, view, work.end).collect())
        except FAILURES as error:
            name = view.name.replace("{", "{{").replace("}", "}}")
            raise epoch_failed(work.epoch, error, self._note(f"view '{name}': {{}}")) from error

    def build(self, maintained: Maintained, views: Sequence[RecomputableView], fixed: frozenset[int]) -> None:
        """Fill new views, and their states that nobody keeps yet, from the tables at the committed cut."""
        done = committed(self._store)
        work = Assignment(done.epoch, done.epoch, None, done.cut, fixed, term=self._tenure.term)
        if planned := [v.sink for v in views if v.sink is not None]:
            only = replace(maintained, views=planned)
            self._work(work, only, None, self._size(only))
        for view in views:
            if view.sink is None:
                self._store_query(work, view, self._counted(maintained, view.tables))

    def _work(
        self,
        work: Assignment,
        maintained: Maintained,
        touched: frozenset[int] | None,
        operations: int,
        build: str | None = None,
    ) -> int:
        """Run the job; the number of view rows written."""
        spark = self._spark()
        try:
            costs = [view.plan.cost for view in maintained.views if touched is None or touched & view.plan.tables]
            one = fits_one_task(costs, operations, self.small)
            tasks = 1 if one else _tasks(self._store.shards, spark)
            spark.conf.set("spark.sql.shuffle.partitions", str(tasks))
            faults.point("epoch.work")
            frame = self._frame(set_assignment(spark, work), touched is None, maintained, touched, tasks, build)
            return sum(row.rows for row in frame.collect()) if frame is not None else 0
        except FAILURES as error:
            if work.start is not None:
                self._store.touched(work.start, work.end)  # a damaged log says so itself
            raise epoch_failed(work.epoch, error, self._note()) from error

    def _note(self, note: str = "{}") -> str:
        """What to say around the reason of a failure."""
        return note if is_running(self._spark()) else f"Spark has stopped, start this process again ({note})"

    def _frame(
        self,
        handed: AssignmentSource,
        blank: bool,
        maintained: Maintained,
        touched: frozenset[int] | None,
        tasks: int,
        build: str | None,
    ) -> DataFrame | None:
        """The job's frame: one made before for the same views and tables, if there is.

        A frame with a shuffle is wrapped: Spark then plans it anew instead of answering from the files of the
        epoch before.
        """
        plan = (tuple(view.state for view in maintained.views), touched, tasks, build)
        kept = self._frames.get(plan)
        if kept is None:
            stages = Stages(self._spark(), self._store, tasks, handed)
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
        cut = done.cut if pinned is None or done.cut.is_before(pinned.cut) else pinned.cut
        self._store.trim(cut)
