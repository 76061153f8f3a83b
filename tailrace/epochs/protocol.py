"""Runs epochs: intent, work, commit, and recovery. The order of these steps is decided only here.

    intent    "epoch e covers (start, end]", written durably before any shard changes
    work      a Spark job applies the deltas of the range shard by shard; another job recomputes views
    commit    "epoch e is committed at cut `end`": readers of all views move to e at this moment

After a crash the intent still exists and the work is repeated over the same range. The work is idempotent: a shard
that has already applied the epoch emits the same deltas again and ignores the writes.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import replace
from typing import Any, NamedTuple

from msgspec import structs
from pyspark.errors import PySparkException
from pyspark.sql import DataFrame, SparkSession

from tailrace import events, faults
from tailrace.catalog import construction
from tailrace.catalog.construction import BUILDS, Load, PlannedBuild
from tailrace.epochs import records
from tailrace.epochs.maintained import Maintained
from tailrace.epochs.model import INTENT, LARGEST, Epoch, Intent
from tailrace.epochs.recompute import RecomputableView, replacing_frame
from tailrace.errors import EpochFailed
from tailrace.plan.physical.estimate import OVERHEAD
from tailrace.plan.physical.physical_plan import ViewSink
from tailrace.plan.physical.sizing import SMALL, fits_one_task
from tailrace.plan.policy import Way
from tailrace.rules.reset import clear_unwritten_shards
from tailrace.spark.compile import Compiler
from tailrace.spark.failures import FAILURES, epoch_failed, is_hopeless, is_outside
from tailrace.spark.session import is_running, session
from tailrace.spark.stages import Stages, set_assignment
from tailrace.store.base import Cut, Store
from tailrace.store.commits import COMMITTED, Committed, read_committed
from tailrace.store.locks import Tenure
from tailrace.store.parts import Part, next_chunk
from tailrace.store.pins import find_oldest_pin
from tailrace.task.assignment import Assignment, AssignmentSource

__all__ = ["Epoch", "Epochs", "Maintained"]

MAX_CACHED_FRAMES = 8  # one for each set of tables that change together
REPAIR_REASON = "an audit found it damaged"


class CompiledFrame(NamedTuple):
    """The DataFrame that applies an epoch to all views, and whether Spark may run it again for the next epoch."""

    frame: DataFrame | None
    reusable: bool


def _count_tasks(shards: int, spark: SparkSession) -> int:
    """Tasks per stage: about one per core, at least two, and a divisor of the number of shards."""
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
        self._range_counts: tuple[Cut, Cut, dict[int, int]] | None = None  # cached by `_count_operations`
        self.frames: dict[tuple[tuple[int, ...], frozenset[int] | None, int, str | None], CompiledFrame] = {}

    def refresh(self, maintained: Maintained, progress: Callable[[Epoch], None] | None = None) -> Epoch:
        """Brings all views to the cut that is newest now, in several epochs if one would be too large."""
        began, target = time.monotonic(), self._store.newest_cut()
        operations = rows = 0
        refreshed: dict[str, Way] = {}
        done = read_committed(self._store)
        while done.cut.is_before(target) or self._store.document(INTENT) is not None:
            epoch = self._next(done, maintained)
            if progress:
                progress(epoch)
            operations, rows = operations + epoch.operations, rows + epoch.view_rows
            refreshed.update(epoch.refreshed)
            done = read_committed(self._store)
        seconds = time.monotonic() - began
        return Epoch(done.epoch, operations, seconds, rows, done.cut, maintained.count, refreshed)

    def advance(self, maintained: Maintained, build: PlannedBuild, rows: int) -> Epoch:
        """Runs one epoch in which a build loads its next chunk of about `rows` rows."""
        tables = [maintained.tables[number] for number in build.tables]
        chunk = next_chunk(self._store, tables, build.loaded, rows, construction.CHUNK_BYTES)
        return self._next(read_committed(self._store), maintained, Load(build.name, *chunk) if chunk else None)

    def repair(self, maintained: Maintained, views: Mapping[str, int], end: Cut, mend: Callable[[], None]) -> Epoch:
        """Runs one epoch that recomputes views (name to state) at cut `end` and writes the differences.

        If `end` is the committed cut, only wrong rows change. If `end` is later, `views` must be all views: the log
        up to `end` is skipped unread. `mend` is called after the intent is durable, so a crash during or after it
        still recomputes everything derived from what it changes.
        """
        done = read_committed(self._store)
        ways = {name: Way("recomputed", REPAIR_REASON) for name in views}
        intent = Intent(self._next_number(done), end, ways, None, tuple(sorted(views.values())), self._tenure.term)
        self._store.change_documents({INTENT.name: intent}, term=intent.term)
        faults.point("epoch.intent")
        mend()
        return self._next(done, maintained)

    def _next(self, done: Committed, maintained: Maintained, load: Load | None = None) -> Epoch:
        """Runs one epoch: the one left open by a crash, or a new one that loads the chunk `load`."""
        began, self._range_counts = time.monotonic(), None
        maintained = replace(maintained, builds=construction.reread_progress(self._store, maintained.builds))
        intent = self._intend(done, maintained, load)
        operations = intent.end.operations - done.cut.operations
        rows = self._refresh_all(done, intent, maintained)
        for build in maintained.builds:
            self._apply_to_build(done, intent, maintained, build)
        self._store.sync()
        faults.point("epoch.commit")
        seconds, now = time.monotonic() - began, time.time()
        document = Committed(intent.epoch, intent.end, now)
        keep = self.keep(done.epoch)
        record = records.record_documents(
            self._store, intent.epoch, intent.end, now, seconds, operations, intent.ways, keep
        )
        progress = self._progress_document(intent.load, maintained)
        self._store.change_documents(
            {COMMITTED.name: document, INTENT.name: None, **record, **progress}, term=intent.term
        )
        faults.point("epoch.committed")
        self.trim()
        epoch = Epoch(intent.epoch, operations, seconds, rows, intent.end, maintained.count, intent.ways)
        events.epoch_committed(self._store, epoch)
        return epoch

    def _intend(self, done: Committed, maintained: Maintained, load: Load | None) -> Intent:
        """The intent to run: the one left open by a crash, or a new one, which is stored first."""
        open_intent, term = self._store.document(INTENT), self._tenure.term
        if open_intent is not None and open_intent.epoch > done.epoch:
            return open_intent if open_intent.term == term else self._take_over(open_intent, term)
        end = self._store.cut_after(done.cut, self._largest)
        intent = Intent(self._next_number(done), end, self._choose(done.cut, end, maintained), load, term=term)
        self._store.change_documents({INTENT.name: intent}, term=term)
        faults.point("epoch.intent")
        return intent

    def _next_number(self, done: Committed) -> int:
        """A number that no epoch has used. Unsafe to reuse one: a task that outlived its driver may still write it."""
        return max(done.epoch, self._tenure.burnt) + 1

    def _take_over(self, open_intent: Intent, term: int) -> Intent:
        """Continues an epoch that another process left open, and fences that process's tasks off."""
        self._store.fence(term)
        intent = structs.replace(open_intent, term=term)
        self._store.change_documents({INTENT.name: intent}, term=term)
        return intent

    def _apply_to_build(self, done: Committed, intent: Intent, maintained: Maintained, build: PlannedBuild) -> None:
        """Applies the epoch to a build: the changes of the rows loaded so far, and the intent's chunk if it has one.

        A failed job is retried until `_note_failure` gives the build up.
        """
        load = intent.load if intent.load is not None and intent.load.build == build.name else None
        operations = self._count_operations(done.cut, intent.end, ()) if build.is_begun else {}
        changed = {table for table in build.tables if table in operations and build.has_rows_of(table)}
        if load is None and not changed:
            return
        new_bounds = build.loaded if load is None else load.coming
        changed |= {table for table, bounds in new_bounds.items() if build.loaded.get(table) != bounds}
        part = Part(build.loaded, new_bounds)
        work = self._assignment(done, intent, part)
        build_only = Maintained(maintained.tables, build.views, build.states)
        size = sum(operations.get(table, 0) for table in changed) + (load.rows if load else 0)
        # The first chunk runs every operator: an aggregate without GROUP BY has its one row even over no rows.
        touched = frozenset(changed) if build.is_begun else None
        given_up = False
        while not given_up:
            was_running = is_running(self._spark())
            if load is not None:
                faults.point("build.chunk")
            try:
                self._run_job(work, build_only, touched, size, build.name)
                return
            except EpochFailed as error:
                if not was_running or is_outside(error):
                    raise
                given_up = self._note_failure(build, error)
                if not given_up and not is_running(self._spark()):
                    raise

    def _note_failure(self, build: PlannedBuild, error: EpochFailed) -> bool:
        """Records a build's failure. Returns whether the build is given up; other views then continue without it."""
        if is_hopeless(error):
            construction.give_up(self._store, build.name, error.reason)
            return True
        return construction.note_failure(self._store, build.name, error.reason)

    def _count_operations(self, start: Cut, end: Cut, views: Iterable[ViewSink]) -> dict[int, int]:
        """The number of operations per changed table in a log range. The last range's counts are cached.

        Tasks verify the checksum of every log entry that they read. If no task of `views` reads this range, it is
        verified here: an unchecked log range must never be committed.
        """
        if self._range_counts is None or self._range_counts[:2] != (start, end):
            counts = self._store.touched(start, end, checked=False)
            if not any(counts.keys() & view.plan.tables for view in views):
                counts = self._store.touched(start, end)
            self._range_counts = start, end, counts
        return self._range_counts[2]

    def _progress_document(self, load: Load | None, maintained: Maintained) -> dict[str, Any]:
        """The document that advances the loading build past its chunk; none if the build was given up."""
        build = next((b for b in maintained.builds if load is not None and b.name == load.build), None)
        document = None if build is None else self._store.document(BUILDS, build.name)
        if load is None or build is None or document is None or document.failed:
            return {}
        return construction.progress_document(build, load)

    def _choose(self, start: Cut, end: Cut, maintained: Maintained) -> dict[str, Way]:
        """Decides for each recomputable view whose tables changed: by deltas or recomputed."""
        if not maintained.recomputable:
            return {}
        operations = self._count_operations(start, end, maintained.views)
        changed_views = [view for view in maintained.recomputable if view.tables & operations.keys()]
        tables = {number for view in changed_views for number in view.tables}
        rows = {number: self._store.count(maintained.tables[number]) for number in tables}
        return {view.name: view.choose_way(operations, rows, self.overhead) for view in changed_views}

    def _refresh_all(self, done: Committed, intent: Intent, maintained: Maintained) -> int:
        """Applies the epoch to all views, first by deltas, then by recomputing. Returns the view rows written."""
        if not maintained.count:
            return 0
        work = self._assignment(done, intent)
        to_recompute = [v for v in maintained.recomputable if v.state in intent.again or intent.recomputes(v.name)]
        recomputed_states = {v.state for v in to_recompute} | set(intent.again)
        planned = [*maintained.views, *(v.sink for v in maintained.recomputable if v.sink is not None)]
        by_deltas = [v for v in planned if v.state not in recomputed_states]
        rows = 0
        if by_deltas:
            touched = frozenset(self._count_operations(done.cut, intent.end, by_deltas))
            operations = intent.end.operations - done.cut.operations
            rows = self._run_job(work, replace(maintained, views=by_deltas), touched, operations) if touched else 0
        if not recomputed_states:
            return rows
        by_plan = [v for v in planned if v.state in recomputed_states]
        by_query = [v for v in to_recompute if v.sink is None]
        shared = maintained.states_of(by_deltas)
        return rows + self._recompute(work, replace(maintained, views=by_plan), by_query, shared)

    def _assignment(self, done: Committed, intent: Intent, part: Part | None = None) -> Assignment:
        return Assignment(intent.epoch, self.keep(done.epoch), done.cut, intent.end, part=part, term=intent.term)

    def _recompute(
        self, work: Assignment, maintained: Maintained, by_query: Sequence[RecomputableView], shared: frozenset[int]
    ) -> int:
        """Recomputes views and their states at the end of the epoch, from their plans or (`by_query`) their SQL.

        `shared` states belong to views maintained by deltas. They are already at the epoch and stay as they are.
        """
        work = structs.replace(work, start=None, fixed=shared, reset=True)
        by_plan = maintained.views
        rows = self._run_job(work, maintained, None, self._count_input(maintained)) if by_plan else 0
        for view in by_query:
            rows += self._run_query(work, view, self._count_rows(maintained, view.tables))
        view_states = [*(v.state for v in by_plan), *(v.state for v in by_query)]
        own_states = maintained.states_of(by_plan) - shared
        clear_unwritten_shards(self._store, [*view_states, *own_states], work.epoch, work.keep, work.term)
        return rows

    def _count_input(self, maintained: Maintained) -> int:
        """The number of rows of all tables that the views read."""
        return self._count_rows(maintained, {number for view in maintained.views for number in view.plan.tables})

    def _count_rows(self, maintained: Maintained, numbers: Iterable[int]) -> int:
        return sum(self._store.count(maintained.tables[number]) for number in numbers)

    def _run_query(self, work: Assignment, view: RecomputableView, size: int) -> int:
        """Runs a view's SQL over `size` table rows and stores the result. Returns the view rows written."""
        try:
            spark = session(self._spark())
            tasks = 1 if size <= self.small else _count_tasks(self._store.shards, spark)
            spark.conf.set("spark.sql.shuffle.partitions", str(tasks))
            stages = Stages(spark, self._store, tasks, set_assignment(spark, work))
            return sum(row.rows for row in replacing_frame(spark, self._store, stages, view, work.end).collect())
        except FAILURES as error:
            raise epoch_failed(work.epoch, error, f"{self._failure_prefix()}view '{view.name}': ") from error

    def build(self, maintained: Maintained, views: Sequence[RecomputableView], fixed: frozenset[int]) -> None:
        """Builds new views from the tables at the committed cut. `fixed` are states that other views already keep."""
        done = read_committed(self._store)
        work = Assignment(done.epoch, done.epoch, None, done.cut, fixed, term=self._tenure.term)
        if by_plan := [v.sink for v in views if v.sink is not None]:
            planned = replace(maintained, views=by_plan)
            self._run_job(work, planned, None, self._count_input(planned))
        for view in views:
            if view.sink is None:
                self._run_query(work, view, self._count_rows(maintained, view.tables))

    def _run_job(
        self,
        work: Assignment,
        maintained: Maintained,
        touched: frozenset[int] | None,
        operations: int,
        build: str | None = None,
    ) -> int:
        """Runs the Spark job that applies an assignment to views with plans. Returns the view rows written.

        `touched` are the tables with changes; None computes the views from whole tables.
        """
        spark = self._spark()
        try:
            costs = [view.plan.cost for view in maintained.views if touched is None or touched & view.plan.tables]
            is_small = fits_one_task(costs, operations, self.small)
            tasks = 1 if is_small else _count_tasks(self._store.shards, spark)
            spark.conf.set("spark.sql.shuffle.partitions", str(tasks))
            faults.point("epoch.work")
            frame = self._compile(set_assignment(spark, work), touched is None, maintained, touched, tasks, build)
            return sum(row.rows for row in frame.collect()) if frame is not None else 0
        except FAILURES as error:
            if work.start is not None:
                self._store.touched(work.start, work.end)  # if the log is damaged, raise that error instead
            raise epoch_failed(work.epoch, error, self._failure_prefix()) from error

    def _failure_prefix(self) -> str:
        """What the message of a failed job says before Spark's reason."""
        if is_running(self._spark()):
            return ""
        return "Spark has stopped, so only a new process can retry it; start this process again. Spark's last error: "

    def _compile(
        self,
        assignment_source: AssignmentSource,
        blank: bool,
        maintained: Maintained,
        touched: frozenset[int] | None,
        tasks: int,
        build: str | None,
    ) -> DataFrame | None:
        """The job's frame, from the cache if the same views and tables were compiled before.

        A frame that is not reusable has a shuffle. It gets a new alias, so that Spark plans it again instead of
        reusing the shuffle files of the previous epoch.
        """
        cache_key = (tuple(view.state for view in maintained.views), touched, tasks, build)
        compiled = self.frames.get(cache_key)
        if compiled is None:
            stages = Stages(self._spark(), self._store, tasks, assignment_source)
            compiler = Compiler(stages, maintained.tables, maintained.states, touched, blank=blank)
            compiled = CompiledFrame(compiler.compile_views(maintained.views), compiler.reusable)
            if not blank and assignment_source.fixed is None:
                while len(self.frames) >= MAX_CACHED_FRAMES:
                    self.frames.pop(next(iter(self.frames)))
                self.frames[cache_key] = compiled
        return compiled.frame if compiled.frame is None or compiled.reusable else compiled.frame.alias("again")

    def keep(self, committed_epoch: int) -> int:
        """The newest epoch whose undo records are not needed. Readers are at the committed or a pinned epoch."""
        pinned = find_oldest_pin(self._store)
        return committed_epoch if pinned is None else min(committed_epoch, pinned.epoch)

    def trim(self) -> None:
        """Deletes the log up to the committed cut or, if it is earlier, the oldest pinned cut."""
        done, pinned = read_committed(self._store), find_oldest_pin(self._store)
        cut = done.cut if pinned is None or done.cut.is_before(pinned.cut) else pinned.cut
        self._store.trim(cut)
