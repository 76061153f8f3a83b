"""The work of one epoch: brings all views to its end, and leaves out those that fail.

    1. by deltas      all views with a plan, in one job
    2. recomputed     views for which the epoch chose that, or that a repair named
    3. caught up      failed views that are tried again: everything since their last good epoch

If a job fails, `isolation.py` finds the views to blame, and `failing.py` leaves them out. From then on the intent names
them, so the work may be repeated by another process at any point. Why they failed is found out after the commit.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace

from msgspec import structs

from tailrace.catalog.failed import FailedView
from tailrace.epochs.counting import OperationCounts
from tailrace.epochs.due import count_due
from tailrace.epochs.failing import LOST_HISTORY, FailingViews
from tailrace.epochs.isolation import Isolated, run_isolated
from tailrace.epochs.jobs import Jobs
from tailrace.epochs.maintained import Maintained
from tailrace.epochs.model import INTENT, MAX_ATTEMPTS, Intent
from tailrace.epochs.recompute import RecomputableView
from tailrace.errors import EpochFailed
from tailrace.plan.physical.physical_plan import ViewSink
from tailrace.spark.compile import is_touched
from tailrace.spark.failures import epoch_failed
from tailrace.store.base import Store
from tailrace.store.commits import Committed
from tailrace.task.assignment import Assignment

Failures = Sequence[tuple[ViewSink | RecomputableView, EpochFailed]]


@dataclass
class EpochWork:
    """The work of one epoch after the committed one (`done`).

    maintained      all views of the store, failed ones included
    failed_before   the views that had failed before this epoch
    intent          changes when views are left out
    keep            undo records of epochs up to this one may be deleted
    all_or_nothing  if a view fails, the whole epoch fails
    """

    store: Store
    jobs: Jobs
    failing: FailingViews
    counts: OperationCounts
    done: Committed
    maintained: Maintained
    failed_before: Mapping[str, FailedView]
    intent: Intent
    keep: int
    all_or_nothing: bool = False

    def run(self) -> int:
        """Does the work. Returns the view rows written."""
        rows = self._refresh_live() if self._live().count else 0
        if self.failing.recovered(self.intent):
            self.jobs.frames.clear()  # they may name states by numbers that have changed since the view failed
            rows += self._catch_up()
        if self.intent.failed:
            self.failing.roll_back(self.intent, self.maintained, self.failed_before)
        return rows

    def assignment(self) -> Assignment:
        """The whole range of the epoch."""
        intent, done = self.intent, self.done
        return Assignment(
            intent.epoch, self.keep, done.cut, intent.end, term=intent.term, time=intent.time, earlier=done.time
        )

    def due(self, maintained: Maintained, base: int | None = None) -> dict[int, int]:
        """The temporal filters of the views with rows whose border the epoch crosses, by state, and how many.

        Their states are as of the epoch before, or of an earlier one (`base`).
        """
        states = maintained.temporal_states_of(maintained.views)
        return count_due(self.store, self.done.epoch if base is None else base, states, self.intent.time)

    def _live(self) -> Maintained:
        """The views that had not failed before and have not failed yet."""
        return self.maintained.without({*self.failed_before, *self.intent.failed})

    # views that have not failed

    def _refresh_live(self) -> int:
        live, again = self._live(), set(self.intent.again)
        recomputed = again | {v.state for v in live.recomputable if self.intent.recomputes(v.name)}
        planned = live.planned
        by_deltas = [v for v in planned if v.state not in recomputed]
        rows = self._apply_deltas(by_deltas) if by_deltas else 0
        if not recomputed:
            return rows
        rest = self._live().row_states
        shared = self.maintained.states_of([v for v in by_deltas if v.state in rest])
        by_plan = [v for v in planned if v.state in recomputed & rest]
        by_query = [v for v in live.recomputable if v.sink is None and v.state in recomputed & rest]
        return rows + self._recompute(by_plan, by_query, shared)

    def _apply_deltas(self, views: Sequence[ViewSink]) -> int:
        touched = frozenset(self.counts.between(self.done.cut, self.intent.end, views))
        crossed = self.due(replace(self.maintained, views=views))
        due, states = frozenset(crossed), self.maintained.states
        size = self.intent.end.operations - self.done.cut.operations + sum(crossed.values())
        rows = 0
        for group in self._groups([v for v in views if is_touched(v, states, touched, due)]):
            work = self.assignment()

            def run(part: Sequence[ViewSink], careful: bool, work: Assignment = work) -> int:
                target = replace(self.maintained, views=part)
                return self.jobs.run_job(work, target, touched, size, due=due, careful=careful)

            outcome = run_isolated(group, run, self.jobs.can_run)
            rows += outcome.rows
            self._leave_out(outcome.failed)
        return rows

    def _groups(self, views: Sequence[ViewSink]) -> Iterator[Sequence[ViewSink]]:
        """All views in one group; in several, each recorded before it runs, if processes keep dying in this epoch."""
        if self.intent.attempts < MAX_ATTEMPTS:
            yield views
            return
        known = {v.state for v in views}
        groups = [tuple(s for s in group if s in known) for group in self.intent.suspects] or [tuple(sorted(known))]
        while groups := [group for group in groups if group]:
            self.intent = structs.replace(self.intent, suspects=tuple(groups))
            self.store.change_documents({INTENT.name: self.intent}, term=self.intent.term)
            yield [v for v in views if v.state in groups[0]]
            groups = groups[1:]

    def _recompute(
        self, by_plan: Sequence[ViewSink], by_query: Sequence[RecomputableView], shared: frozenset[int]
    ) -> int:
        """Recomputes views at the end of the epoch, from their plans or (`by_query`) their SQL.

        `shared` states belong to views maintained by deltas. They are already at the epoch and stay as they are.
        """
        work = structs.replace(self.assignment(), start=None, fixed=shared, reset=True)

        def run_plans(views: Sequence[ViewSink], careful: bool) -> int:
            return self.jobs.recompute_plans(work, replace(self.maintained, views=views))

        def run_query(views: Sequence[RecomputableView], careful: bool) -> int:
            return sum(self.jobs.recompute_query(work, view, self.maintained) for view in views)

        planned = run_isolated(by_plan, run_plans, self.jobs.can_run)
        queried: list[Isolated[RecomputableView]] = [
            run_isolated([view], run_query, self.jobs.can_run) for view in by_query
        ]
        self._leave_out([*planned.failed, *(failed for outcome in queried for failed in outcome.failed)])
        return planned.rows + sum(outcome.rows for outcome in queried)

    # failed views that are tried again

    def _catch_up(self) -> int:
        """Applies to failed views everything since their last good epoch. Those that fail again stay as they are."""
        names = self.failing.recovered(self.intent)
        bases = {name: self.intent.catch_ups[name].epoch for name in names}
        rows, live = 0, self._live().live_states
        for base in sorted({*bases.values()}, key=lambda epoch: (epoch is None, epoch)):
            group = self._with_plans([name for name in names if bases[name] == base])
            if base is None:
                rows += self._recompute(*group, live)
            else:
                rows += self._catch_up_by_deltas(base, group[0], live)
            recovered = {name for name in names if bases[name] == base} - self.intent.failed.keys()
            live |= self.failing.states_of(self.maintained, recovered)
        return rows

    def _with_plans(self, names: Collection[str]) -> tuple[list[ViewSink], list[RecomputableView]]:
        """Views with a plan, and those that only their SQL can recompute."""
        sinks = [self.maintained.definitions[name].sink for name in names]
        by_query = [v for v in self.maintained.only(names).recomputable if v.sink is None]
        return [sink for sink in sinks if sink is not None], by_query

    def _catch_up_by_deltas(self, base: int, views: Sequence[ViewSink], shared: frozenset[int]) -> int:
        """Applies the net delta since epoch `base` to views that are at that epoch.

        All states are read as of that epoch, also the `shared` ones, which other views have moved on since.
        """
        good = next(c for c in self.intent.catch_ups.values() if c.epoch == base)
        start = good.cut
        work = structs.replace(self.assignment(), start=start, fixed=shared, base=base, earlier=good.time)

        def run(part: Sequence[ViewSink], careful: bool) -> int:
            try:
                touched = frozenset(self.store.touched(start, self.intent.end))
                target = replace(self.maintained, views=part)
                due = self.due(target, base)
                size = self.intent.end.operations - start.operations + sum(due.values())
                return self.jobs.run_job(work, target, touched, size, due=frozenset(due), careful=True)
            except LOST_HISTORY as error:
                raise epoch_failed(work.epoch, error) from error

        outcome = run_isolated(views, run, self.jobs.can_run)
        self._leave_out(outcome.failed)
        return outcome.rows

    # views that fail

    def _leave_out(self, failures: Failures) -> None:
        """Leaves views out of the epoch, and the views that read them."""
        if not failures:
            return
        if self.all_or_nothing or not self.jobs.is_running():  # without Spark, nothing can be said about a view
            raise failures[0][1]
        names = {view.state: name for name, view in self.maintained.definitions.items()}
        errors = {names[view.state]: error for view, error in failures}
        readers = self.maintained.dependants_of(
            [name for name in errors if not errors.keys() & set(self.maintained.definitions[name].uses)]
        )
        recorded = {
            name: self.failing.record(name, error, self.done, self.intent, self.maintained, self.failed_before)
            for name, error in errors.items()
            if name not in readers  # else it fails because of the view that it reads
        }
        self.intent = self.failing.leave_out(self.intent, recorded, self.maintained, self.failed_before)
