"""Dry runs of failed views: whether a view could be caught up, and if not, why. They write nothing.

A dry run reads the states as of the view's last good epoch and the log since then, up to the committed cut. Both stay
readable while other views move on, so a dry run needs no lock and holds nobody up.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import NamedTuple

from msgspec import structs

from tailrace.catalog.failed import FailedView, digest_row, read_failed
from tailrace.epochs.blame import Cause
from tailrace.epochs.due import count_due
from tailrace.epochs.failing import FailingViews, has_lost_history, without_history
from tailrace.epochs.jobs import Jobs
from tailrace.epochs.maintained import Maintained
from tailrace.epochs.model import CatchUp
from tailrace.errors import EpochFailed, TailraceError
from tailrace.spark.failures import FAILURES, epoch_failed, is_outside
from tailrace.store.base import Cut, Store
from tailrace.store.pins import Pin, pinned
from tailrace.task.assignment import Assignment


class Attempt(NamedTuple):
    """A failed view to try: its name, its document, how it is caught up, and whether it is known to fail.

    If it is, only the reason is searched for.
    """

    name: str
    failed: FailedView
    catch_up: CatchUp
    is_known_to_fail: bool


class Outcome(NamedTuple):
    """The outcome of a dry run.

    cause   why the view fails, and at which cut; None if it does not fail, or if nothing can be said
    passed  whether it could be caught up
    lost    whether the log or the undo records that it needs are gone
    seen    a digest of the row on which it fails
    """

    cause: Cause | None = None
    cut: Cut | None = None
    passed: bool = False
    lost: bool = False
    seen: str = ""

    def applied_to(self, failed: FailedView) -> FailedView:
        """The document of a failed view after this outcome."""
        ended = structs.replace(failed, trying=False, diagnosed=True)
        if self.lost:
            return without_history(ended)
        if self.cause is None:
            return structs.replace(
                ended, row="", seen=""
            )  # else a changed row would be a reason to try without a pause
        operator, expression, key, why, table, row = self.cause
        return structs.replace(
            ended,
            reason=why or failed.reason,
            operator=operator,
            expression=expression,
            key=key,
            table=table,
            row=row,
            seen=self.seen,
            because="",
            tried=self.cut,
        )


@dataclass(frozen=True)
class DryRuns:
    """Dry runs on one store."""

    store: Store
    jobs: Jobs

    def run(self, attempt: Attempt, maintained: Maintained) -> Outcome:
        """Tries a view. Returns an empty outcome if Spark stopped, the job was cancelled, or the disk is full."""
        with pinned(self.store) as pin:
            error = None if attempt.is_known_to_fail else self._failure(attempt, maintained, pin)
            if error is None and not attempt.is_known_to_fail:
                return Outcome(passed=True)
            if error is not None and has_lost_history(error):
                return Outcome(lost=True)
            if error is not None and is_outside(error):
                return Outcome()
            cause = self._find_cause(attempt, maintained, pin)
            if not self.jobs.is_running():
                return Outcome()
            if error is not None and not cause.reason:
                cause = cause._replace(reason=str(error.reason))
            table = maintained.tables.get(cause.table)
            seen = digest_row(self.store, table, cause.row, pin.cut) if cause.row else ""
            return Outcome(cause, pin.cut, seen=seen)

    def _failure(self, attempt: Attempt, maintained: Maintained, pin: Pin) -> EpochFailed | None:
        """The error of catching a view up without writing; None if it succeeds."""
        target, work = maintained.only([attempt.name]), self._work(attempt, maintained, pin)
        view = maintained.definitions[attempt.name]
        try:
            if view.sink is None:
                self.jobs.run_query(work, target.recomputable[0], maintained)
                return None
            target = replace(target, views=[view.sink])
            if work.start is None:
                self.jobs.run_job(work, target, None, self.jobs.count_input(target))
                return None
            touched = frozenset(self.store.touched(work.start, work.end))
            base = attempt.failed.epoch if work.base is None else work.base
            due = count_due(self.store, base, target.temporal_states_of(target.views), work.time)
            size = work.end.operations - work.start.operations + sum(due.values())
            self.jobs.run_job(work, target, touched, size, due=frozenset(due), careful=True)
        except EpochFailed as error:
            return error
        except (*FAILURES, TailraceError) as error:
            return epoch_failed(work.epoch, error)
        return None

    def _find_cause(self, attempt: Attempt, maintained: Maintained, pin: Pin) -> Cause:
        view = maintained.definitions[attempt.name]
        if view.sink is None:
            return Cause(operator="query")
        work = self._work(attempt, maintained, pin)
        touched = None if work.start is None else frozenset(view.sink.plan.tables)
        due = maintained.temporal_states_of([view.sink])
        return self.jobs.find_cause(view.sink, work, touched, due, maintained)

    def _work(self, attempt: Attempt, maintained: Maintained, pin: Pin) -> Assignment:
        """Everything since the last good epoch or, if that cannot be caught up, the whole tables."""
        base, good = attempt.catch_up.epoch, attempt.failed
        start = None if base is None else good.cut
        live = maintained.without(read_failed(self.store)).live_states
        own = FailingViews.states_of(maintained, [attempt.name])
        return Assignment(
            pin.epoch, 0, start, pin.cut, live & own, time=pin.time, earlier=good.time, base=base, dry=True
        )
