"""Tries failed views again while a runner runs epochs, without holding up the other views.

    trial       a dry run (`dry_runs.py`) in a thread of its own, one at a time
    it fails    its document gets the new reason, and a longer pause
    it passes   an epoch of its own catches the view up

Before a trial begins, it is counted in the view's document: if it kills the process, the next process waits longer
before it tries again. After a failure in an epoch, the first dry run only searches for the reason.
"""

from __future__ import annotations

import threading
import time
import uuid
from collections.abc import Callable, Mapping

from msgspec import structs
from pyspark.sql import SparkSession

from tailrace import faults
from tailrace.catalog.failed import FAILED, FailedView, pause_after, read_failed
from tailrace.epochs.dry_runs import Attempt, DryRuns, Outcome
from tailrace.epochs.failing import FailingViews
from tailrace.epochs.jobs import Jobs
from tailrace.epochs.maintained import Maintained
from tailrace.errors import TailraceError
from tailrace.spark.failures import FAILURES
from tailrace.spark.session import cancel_jobs, in_job_group, is_running, session
from tailrace.store.base import Store
from tailrace.store.commits import read_committed

CANCELLING = 0.2  # seconds between two attempts to cancel the job of a trial


class Trials:
    """The trials of one runner. Its methods are called between epochs, under the epoch lock."""

    def __init__(self, store: Store, spark: Callable[[], SparkSession], failing: FailingViews) -> None:
        self._store, self._spark, self._failing = store, spark, failing
        self._group = f"tailrace trials {uuid.uuid4()}"
        self._thread: threading.Thread | None = None
        self._attempt: Attempt | None = None
        self._outcome = Outcome()
        self._passed: set[str] = set()
        self._is_new = True

    def collect(self) -> None:
        """Records the outcome of a trial that has ended."""
        if self._thread is not None and not self._thread.is_alive():
            self._thread.join()
            self._end()
        if self._is_new:
            self.end_abandoned()

    def begin_next(self, maintained: Maintained) -> None:
        """Begins the next trial if one is due and none runs."""
        failed = read_failed(self._store)
        if not failed or self._thread is not None or not is_running(self._spark()):
            return
        attempt = self._choose(failed, maintained)
        if attempt is not None:
            self._begin(attempt, maintained)

    def take_passed(self) -> list[str]:
        """The views that passed their trial since the last call, so that an epoch can catch them up."""
        passed, self._passed = sorted(self._passed), set()
        return passed

    def close(self) -> None:
        """Ends a running trial; its outcome is unknown. Needs no lock."""
        while self._thread is not None and self._thread.is_alive():
            cancel_jobs(self._spark(), self._group)  # again and again: it may begin another job
            self._thread.join(CANCELLING)
        self._thread, self._is_new = None, True

    def end_abandoned(self) -> None:
        """Records the end of trials without an outcome: of this runner, or of processes that died.

        A view whose trial may have killed its process is tried after a pause only, whatever has changed.
        """
        own, self._attempt, self._is_new = self._attempt, None, False
        for name, view in read_failed(self._store).items():
            if view.trying and not view.because:
                is_own = own is not None and own.name == name and own.is_known_to_fail
                self._failing.store_failed(
                    name, structs.replace(view, trying=False, diagnosed=not is_own, row="", seen="")
                )

    def _choose(self, failed: Mapping[str, FailedView], maintained: Maintained) -> Attempt | None:
        """The view to try next: one whose reason is not known yet, or one that is due."""
        unknown = [n for n, f in failed.items() if not f.diagnosed and n in maintained.definitions]
        cut = read_committed(self._store).cut  # a dry run sees no later changes
        due = unknown or self._failing.choose_due(failed, maintained, cut, eager=False)
        waiting = [name for name in due if name not in self._passed]
        if not waiting:
            return None
        name = min(waiting, key=lambda n: failed[n].next_try)
        catch_up = self._failing.choose_catch_ups([name], failed, maintained)[name]
        return Attempt(name, failed[name], catch_up, bool(unknown))

    def _begin(self, attempt: Attempt, maintained: Maintained) -> None:
        old = attempt.failed
        tries = old.tries + (not attempt.is_known_to_fail)
        begun = structs.replace(
            old, trying=True, diagnosed=True, tries=tries, next_try=time.time() + pause_after(tries - 1)
        )
        self._attempt, self._outcome = attempt._replace(failed=begun), Outcome()
        self._failing.store_failed(attempt.name, begun)
        faults.point("trial.begun")
        self._thread = threading.Thread(target=self._run, args=(self._attempt, maintained), daemon=True)
        self._thread.start()

    def _run(self, attempt: Attempt, maintained: Maintained) -> None:
        """The thread. Its Spark session is its own, because settings of the session differ from job to job."""
        try:
            own = session(self._spark())
            with in_job_group(own, self._group):
                self._outcome = DryRuns(self._store, Jobs(self._store, lambda: own)).run(attempt, maintained)
        except (*FAILURES, TailraceError):
            self._outcome = Outcome()  # Spark has stopped, or the view was dropped: nothing can be said

    def _end(self) -> None:
        attempt, outcome = self._attempt, self._outcome
        self._thread, self._attempt = None, None
        assert attempt is not None
        begun, current = attempt.failed, self._store.document(FAILED, attempt.name)
        if current is None or (current.next_try, current.states) != (begun.next_try, begun.states):
            return  # it was dropped, replaced or caught up meanwhile, or somebody asked to resume it
        if outcome.passed:
            self._passed.add(attempt.name)
        else:
            self._failing.store_failed(attempt.name, outcome.applied_to(current))
