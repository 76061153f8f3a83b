"""Runs epochs: intent, work, commit, and recovery. The order of these steps is decided only here.

    intent    "epoch e covers (start, end]", written durably before any shard changes
    work      a Spark job applies the deltas of the range shard by shard; another job recomputes views
    commit    "epoch e is committed at cut `end`": readers of all views move to e at this moment

After a crash the intent still exists and the work is repeated over the same range. The work is idempotent: a shard
that has already applied the epoch emits the same deltas again and ignores the writes.
"""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from typing import Any

from msgspec import structs
from pyspark.sql import SparkSession

from tailrace import events, faults
from tailrace.catalog import construction
from tailrace.catalog.catalog import BUILDING, EMPTYING
from tailrace.catalog.construction import BUILDS, DROPPING, Load, PlannedBuild
from tailrace.catalog.failed import FAILED, FailedView, read_failed
from tailrace.epochs import records
from tailrace.epochs.clock import Clock, wall_clock
from tailrace.epochs.counting import OperationCounts
from tailrace.epochs.dry_runs import Attempt, DryRuns
from tailrace.epochs.due import next_border
from tailrace.epochs.failing import FailingViews
from tailrace.epochs.isolation import halves
from tailrace.epochs.jobs import Jobs
from tailrace.epochs.maintained import Maintained
from tailrace.epochs.model import INTENT, LARGEST, MAX_ATTEMPTS, CatchUp, Epoch, Intent
from tailrace.epochs.recompute import RecomputableView
from tailrace.epochs.trials import Trials
from tailrace.epochs.work import EpochWork
from tailrace.errors import EpochFailed
from tailrace.plan.physical.estimate import OVERHEAD
from tailrace.plan.policy import Way
from tailrace.spark.failures import is_hopeless, is_outside
from tailrace.store.base import Cut, Store
from tailrace.store.commits import COMMITTED, EPOCHS, Committed, read_committed
from tailrace.store.locks import Tenure
from tailrace.store.parts import Part, next_chunk
from tailrace.store.pins import HOLDS, find_oldest_pin
from tailrace.task.assignment import Assignment

__all__ = ["Epoch", "Epochs", "Maintained"]

# Documents that only the holder of the epoch lock changes. It need not read them again and again.
OF_THE_HOLDER = (COMMITTED, INTENT, EPOCHS, HOLDS, EMPTYING, DROPPING, BUILDING)
# Only the holder creates these, too. If there are some, they are read again: `resume` in another process changes them.
OF_THE_HOLDER_WHILE_NONE = (FAILED, BUILDS)

REPAIR_REASON = "an audit found it damaged"
DEADLY = (
    "{attempts} processes died in this epoch, the last of them while it computed this view; it may need more memory"
)


class Epochs:
    """Runs epochs on a store. The caller holds the epoch lock."""

    def __init__(
        self,
        store: Store,
        tenure: Tenure,
        spark: Callable[[], SparkSession],
        largest: int = LARGEST,
    ) -> None:
        self._store, self._tenure, self._largest = store, tenure, largest
        self.jobs = Jobs(store, spark)
        self.overhead = OVERHEAD
        self.clock: Clock = wall_clock
        self._counts, self._failing = OperationCounts(store), FailingViews(store, tenure)
        self.trials = Trials(store, spark, self._failing)
        self._reported: dict[str, str] = {}

    def refresh(
        self,
        maintained: Maintained,
        progress: Callable[[Epoch], None] | None = None,
        *,
        eager: bool = True,
        passes_time: bool = False,
        is_stopped: Callable[[], bool] = lambda: False,
    ) -> Epoch:
        """Brings all views to the cut that is newest now, in several epochs if one would be too large.

        Also if no table changed, but rows must enter or leave views because time passed. With `passes_time` in any
        case: the committed epoch then has the time of this call, or a later one.

        With `eager`, first waits until the log has everything written before this call. After all other views, failed
        views that may have recovered are tried again. Otherwise takes what the log has; failed views are tried in a
        thread (`trials.py`), and caught up when they have passed.
        Begins no further epoch as soon as `is_stopped()`.
        """
        began, due = time.monotonic(), None
        if eager:
            self._store.catch_up()
        else:
            self._store.advance()
        target, moment = self._store.newest_cut(), self.clock()
        total = Epoch(0, 0, 0.0, 0, target, maintained.count)
        done = read_committed(self._store)
        while not is_stopped():
            if (
                done.cut.is_before(target)
                or self._store.document(INTENT) is not None
                or (passes_time and done.time < moment)
                or ((due := self._next_due(done, maintained)) is not None and due <= moment)
            ):
                epoch = self._next(done, maintained)
            elif catch_ups := self._choose_catch_ups(maintained, done.cut, eager):
                epoch = self._next(done, maintained, catch_ups=catch_ups)
            else:
                break
            if progress:
                progress(epoch)
            total = total.then(epoch)
            done = read_committed(self._store)
        if eager:
            total = self._diagnosed(total, maintained)
        else:
            self.trials.collect()
        self.report_failures()  # before the next trial, which may change the reason
        if not eager:
            self.trials.begin_next(maintained)
        return replace(total, number=done.epoch, cut=done.cut, seconds=time.monotonic() - began, next_due=due)

    def _next_due(self, done: Committed, maintained: Maintained) -> int | None:
        """When the next row enters or leaves a view because time passes; None if no row ever will."""
        live = maintained.without(read_failed(self._store))
        return next_border(self._store, done.epoch, live.temporal_states_of(live.planned))

    def seconds_until(self, moment: int | None) -> float:
        """The seconds until a time of the clock; infinity for None."""
        return math.inf if moment is None else max((moment - self.clock()) / 1_000_000, 0.0)

    def _choose_catch_ups(self, maintained: Maintained, end: Cut, eager: bool) -> dict[str, CatchUp]:
        failed = read_failed(self._store)
        if not failed:
            return {}
        due = self._failing.choose_due(failed, maintained, end, eager=True) if eager else self.trials.take_passed()
        return self._failing.choose_catch_ups(due, failed, maintained)

    def _diagnosed(self, epoch: Epoch, maintained: Maintained) -> Epoch:
        """Finds out why views failed in epochs that are committed."""
        for name, view in read_failed(self._store).items():
            if not view.diagnosed and name in maintained.definitions:
                failed = read_failed(self._store)
                catch_up = self._failing.choose_catch_ups([name], failed, maintained)[name]
                outcome = DryRuns(self._store, self.jobs).run(Attempt(name, view, catch_up, True), maintained)
                self._failing.store_failed(name, outcome.applied_to(view))
        now = read_failed(self._store)
        return replace(epoch, failed={name: now.get(name, view) for name, view in epoch.failed.items()})

    def report_failures(self) -> None:
        """Logs each failed view whose error has not been logged yet. While a dry run looks for the error, waits."""
        failed = read_failed(self._store)
        self._reported = {name: message for name, message in self._reported.items() if name in failed}
        for name, view in failed.items():
            if view.diagnosed and not view.trying and self._reported.get(name) != view.message:
                events.view_failed(self._store.path, name, view.message)
                self._reported[name] = view.message

    def advance(self, maintained: Maintained, build: PlannedBuild, rows: int) -> Epoch:
        """Runs one epoch in which a build loads its next chunk of about `rows` rows."""
        tables = [maintained.tables[number] for number in build.tables]
        chunk = next_chunk(self._store, tables, build.loaded, rows, construction.CHUNK_BYTES)
        return self._next(read_committed(self._store), maintained, Load(build.name, *chunk) if chunk else None)

    def repair(self, maintained: Maintained, views: Mapping[str, int], end: Cut, mend: Callable[[], None]) -> Epoch:
        """Runs one epoch that recomputes views (name to state) at cut `end` and writes the differences.

        If `end` is the committed cut, only wrong rows change. If `end` is later, `views` must be all views: the log
        up to `end` is skipped unread. The time stays that of the committed epoch. `mend` is called after the intent is
        durable, so a crash during or after it still recomputes everything derived from what it changes.
        """
        done = read_committed(self._store)
        ways = {name: Way("recomputed", REPAIR_REASON) for name in views}
        again = tuple(sorted(views.values()))
        intent = Intent(self._next_number(done), end, ways, None, again, self._tenure.term, time=done.time)
        self._store.change_documents({INTENT.name: intent}, term=intent.term)
        faults.point("epoch.intent")
        mend()
        return self._next(done, maintained, all_or_nothing=True)

    def _next(
        self,
        done: Committed,
        maintained: Maintained,
        load: Load | None = None,
        *,
        catch_ups: Mapping[str, CatchUp] | None = None,
        all_or_nothing: bool = False,
    ) -> Epoch:
        """Runs one epoch: the one left open by a crash, or a new one that loads the chunk `load`.

        An epoch with `catch_ups` catches up failed views, at the cut that is committed already.
        """
        began = time.monotonic()
        self._counts.forget()
        maintained = replace(maintained, builds=construction.reread_progress(self._store, maintained.builds))
        failed_before = read_failed(self._store)
        intent = self._intend(done, maintained, load, failed_before, catch_ups)
        operations = intent.end.operations - done.cut.operations
        work = EpochWork(
            self._store,
            self.jobs,
            self._failing,
            self._counts,
            done,
            maintained,
            failed_before,
            intent,
            self.keep(done.epoch),
            all_or_nothing,
        )
        rows, intent = work.run(), work.intent
        for build in maintained.builds:
            self._apply_to_build(work, build)
        self._store.sync()
        faults.point("epoch.commit")
        seconds, now = time.monotonic() - began, time.time()
        document = Committed(intent.epoch, intent.end, now, intent.time)
        keep = self.keep(done.epoch)
        behind = {*failed_before, *intent.failed} - self._failing.recovered(intent)
        record = records.record_documents(self._store, document, seconds, operations, intent.ways, keep, behind)
        progress = self._progress_document(intent.load, maintained)
        failures = self._failing.commit_documents(intent, failed_before)
        self._store.change_documents(
            {COMMITTED.name: document, INTENT.name: None, **record, **progress, **failures}, term=intent.term
        )
        faults.point("epoch.committed")
        self.trim()
        recovered = tuple(sorted(self._failing.recovered(intent)))
        done_epoch = Epoch(intent.epoch, operations, seconds, rows, intent.end, maintained.count, intent.ways)
        epoch = replace(done_epoch, failed=intent.failed, recovered=recovered)
        events.epoch_committed(self._store, epoch)
        return epoch

    def _intend(
        self,
        done: Committed,
        maintained: Maintained,
        load: Load | None,
        failed: Mapping[str, FailedView],
        catch_ups: Mapping[str, CatchUp] | None,
    ) -> Intent:
        """The intent to run: the one left open by a crash, or a new one, which is stored first."""
        open_intent, term = self._store.document(INTENT), self._tenure.term
        if open_intent is not None and open_intent.epoch > done.epoch:
            open_intent = self._failing.without_replaced(open_intent, maintained, failed)
            return open_intent if open_intent.term == term else self._take_over(open_intent, maintained, done, failed)
        number = self._next_number(done)
        if catch_ups:
            intent = Intent(number, done.cut, {}, None, term=term, catch_ups=dict(catch_ups), time=done.time)
        else:
            end = self._store.cut_after(done.cut, self._largest)
            ways = self._choose(done.cut, end, maintained.without(failed))
            intent = Intent(number, end, ways, load, term=term, time=max(done.time, self.clock()))
        self._store.change_documents({INTENT.name: intent}, term=term)
        faults.point("epoch.intent")
        return intent

    def _next_number(self, done: Committed) -> int:
        """A number that no epoch has used. Unsafe to reuse one: a task that outlived its driver may still write it."""
        return max(done.epoch, self._tenure.burnt) + 1

    def _take_over(
        self, open_intent: Intent, maintained: Maintained, done: Committed, failed: Mapping[str, FailedView]
    ) -> Intent:
        """Continues an epoch that another process left open, and fences that process's tasks off.

        If processes keep dying in this epoch, the views that they were computing are left out of it.
        """
        term = self._tenure.term
        self._store.fence(term)
        intent = structs.replace(open_intent, term=term, attempts=open_intent.attempts + 1)
        guilty: set[str] = set()
        if intent.attempts >= MAX_ATTEMPTS:
            guilty = set(intent.catch_ups) - set(intent.failed)
        if intent.suspects:
            first, *rest = intent.suspects
            if len(first) == 1:
                guilty |= {name for name, view in maintained.definitions.items() if view.state == first[0]}
            intent = structs.replace(intent, suspects=(*halves(first), *rest))
        self._store.change_documents({INTENT.name: intent}, term=term)
        if not guilty:
            return intent
        error = EpochFailed(epoch=intent.epoch, reason=DEADLY.format(attempts=intent.attempts), cause=None)
        recorded = {n: self._failing.record(n, error, done, intent, maintained, failed) for n in guilty}
        known = {n: structs.replace(view, diagnosed=True) for n, view in recorded.items()}  # a dry run may kill, too
        return self._failing.leave_out(intent, known, maintained, failed)

    def _apply_to_build(self, epoch: EpochWork, build: PlannedBuild) -> None:
        """Applies the epoch to a build: the changes of the rows loaded so far, and the intent's chunk if it has one.

        A failed job is retried until `_note_failure` gives the build up.
        """
        load = epoch.intent.load if epoch.intent.load is not None and epoch.intent.load.build == build.name else None
        operations = self._counts.between(epoch.done.cut, epoch.intent.end, ()) if build.is_begun else {}
        changed = {table for table in build.tables if table in operations and build.has_rows_of(table)}
        build_only = Maintained(epoch.maintained.tables, build.views, build.states)
        due = epoch.due(build_only) if build.is_begun else {}
        if load is None and not changed and not due:
            return
        new_bounds = build.loaded if load is None else load.coming
        changed |= {table for table, bounds in new_bounds.items() if build.loaded.get(table) != bounds}
        part = Part(build.loaded, new_bounds)
        work = structs.replace(epoch.assignment(), part=part)
        size = sum(operations.get(table, 0) for table in changed) + (load.rows if load else 0) + sum(due.values())
        # The first chunk runs every operator: an aggregate without GROUP BY has its one row even over no rows.
        touched = frozenset(changed) if build.is_begun else None
        given_up = False
        while not given_up:
            was_running = self.jobs.is_running()
            if load is not None:
                faults.point("build.chunk")
            try:
                self.jobs.run_job(work, build_only, touched, size, build.name, frozenset(due))
                return
            except EpochFailed as error:
                if not was_running or is_outside(error):
                    raise
                given_up = self._note_failure(build, error)
                if not given_up and not self.jobs.is_running():
                    raise

    def _note_failure(self, build: PlannedBuild, error: EpochFailed) -> bool:
        """Records a build's failure. Returns whether the build is given up; other views then continue without it."""
        if is_hopeless(error):
            construction.give_up(self._store, build.name, error.reason)
            return True
        return construction.note_failure(self._store, build.name, error.reason)

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
        operations = self._counts.between(start, end, maintained.views)
        changed_views = [view for view in maintained.recomputable if view.tables & operations.keys()]
        tables = {number for view in changed_views for number in view.tables}
        rows = {number: self._store.count(maintained.tables[number]) for number in tables}
        return {view.name: view.choose_way(operations, rows, self.overhead) for view in changed_views}

    def build(self, maintained: Maintained, views: Sequence[RecomputableView], fixed: frozenset[int]) -> None:
        """Builds new views from the tables at the committed cut. `fixed` are states that other views already keep."""
        done = read_committed(self._store)
        work = Assignment(done.epoch, done.epoch, None, done.cut, fixed, term=self._tenure.term, time=done.time)
        if by_plan := [v.sink for v in views if v.sink is not None]:
            planned = replace(maintained, views=by_plan)
            self.jobs.run_job(work, planned, None, self.jobs.count_input(planned))
        for view in views:
            if view.sink is None:
                self.jobs.run_query(work, view, maintained)

    def keep(self, committed_epoch: int) -> int:
        """The newest epoch whose undo records are not needed. Readers are at the committed or a pinned epoch."""
        pinned = find_oldest_pin(self._store)
        return committed_epoch if pinned is None else min(committed_epoch, pinned.epoch)

    def trim(self) -> None:
        """Deletes the log up to the committed cut or, if it is earlier, the oldest pinned cut."""
        done, pinned = read_committed(self._store), find_oldest_pin(self._store)
        cut = done.cut if pinned is None or done.cut.is_before(pinned.cut) else pinned.cut
        self._store.trim_soon(cut)
