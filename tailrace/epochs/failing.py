"""Failed views in an epoch: which are tried again, how a view is left out, and what the commit records.

    leave out     a new term fences off the tasks of the failed job; the intent then names the failed views
    roll back     shards take back what the epoch wrote to states that only failed views keep
    commit        `failed:<view>` and `hold:<view>` are written with the epoch, or removed for a view that recovered

Each step may be repeated: a process that dies in between leaves the intent, and the next one repeats what it says.
"""

from __future__ import annotations

import time
from collections.abc import Collection, Mapping
from dataclasses import dataclass
from typing import Any

from msgspec import structs

from tailrace import faults
from tailrace.catalog.definition import ViewDef
from tailrace.catalog.failed import (
    FAILED,
    FIRST_PAUSE,
    FailedView,
    failed_again,
    failed_documents,
    is_due,
    read_failed,
    recovered_documents,
    within_limit,
)
from tailrace.epochs.maintained import Maintained
from tailrace.epochs.model import INTENT, CatchUp, Intent
from tailrace.errors import Corrupt, EpochFailed, OffsetGap, SnapshotGone
from tailrace.store.base import Cut, Store
from tailrace.store.commits import Committed
from tailrace.store.locks import Tenure

ERROR = ("reason", "operator", "expression", "key", "tries", "next_try", "trying")  # passed on to views that read it
LOST_HISTORY = (Corrupt, OffsetGap, SnapshotGone)  # a view cannot catch up by deltas any more


@dataclass(frozen=True)
class FailingViews:
    """The failed views of one store. The caller holds the epoch lock."""

    store: Store
    tenure: Tenure

    # which views to try again

    def choose_due(
        self, failed: Mapping[str, FailedView], maintained: Maintained, end: Cut, *, eager: bool
    ) -> list[str]:
        """The failed views to try now. Views that read a failed view are left out: they are tried together with it.

        So are views that have just failed: first the reason is searched for.
        """
        return [
            name
            for name, view in failed.items()
            if name in maintained.definitions
            and view.because not in failed
            and (view.diagnosed or view.next_try == 0.0)
            and (view.because or self._is_due(name, view, maintained, end, eager))
        ]

    def _is_due(self, name: str, view: FailedView, maintained: Maintained, end: Cut, eager: bool) -> bool:
        tables = {number: maintained.tables[number] for number in maintained.definitions[name].tables}
        return is_due(view, tables, self.store, end, eager=eager)

    def choose_catch_ups(
        self, names: Collection[str], failed: Mapping[str, FailedView], maintained: Maintained
    ) -> dict[str, CatchUp]:
        """How an epoch catches up these failed views, together with the failed views that read them."""
        live = maintained.without(failed).live_states if names else frozenset[int]()
        return {
            name: CatchUp(view.epoch if self._can_catch_up(maintained, name, view, live) else None, view.cut, view.time)
            for name, view in failed.items()
            if (name in names or view.because in names) and name in maintained.definitions
        }

    def _can_catch_up(self, maintained: Maintained, name: str, view: FailedView, live: frozenset[int]) -> bool:
        """Whether deltas can catch a view up: every state that it reads is readable at its last good epoch.

        States that no live view keeps must still be exactly at that epoch.
        """
        definition = maintained.definitions[name]
        states = _states(maintained, definition)
        if not view.held or definition.sink is None or definition.refresh == "full" or states != view.states:
            return False
        for index in range(self.store.shards):
            with self.store.shard(index).at(view.epoch) as snapshot:
                try:
                    for state in states:
                        snapshot.get_many(state, [])  # raises if the undo records are gone
                except LOST_HISTORY:
                    return False
                if any((snapshot.applied(s) or 0) > view.epoch for s in states if s not in live):
                    return False
        return True

    def without_replaced(self, intent: Intent, maintained: Maintained, before: Mapping[str, FailedView]) -> Intent:
        """An intent that a crash left open, without failed views that were dropped or replaced since."""
        known = {name: view.state for name, view in maintained.definitions.items()}
        failed = {name: f for name, f in intent.failed.items() if known.get(name) in f.states}
        catch_ups = {name: c for name, c in intent.catch_ups.items() if name in before and name in known}
        return structs.replace(intent, failed=failed, catch_ups=catch_ups)

    # leaving views out

    def record(
        self,
        name: str,
        error: EpochFailed,
        done: Committed,
        intent: Intent,
        maintained: Maintained,
        before: Mapping[str, FailedView],
    ) -> FailedView:
        """What is recorded of a view that failed in this epoch, for the first time or again.

        The operator, the expression and the row are searched for after the commit, so that no other view waits for it.
        """
        definition, now = maintained.definitions[name], time.time()
        view = FailedView(
            epoch=done.epoch,
            cut=done.cut,
            time=done.time,
            failed_at=intent.epoch,
            at=now,
            reason=str(error.reason),
            tried=intent.end,
            next_try=now + FIRST_PAUSE,
            diagnosed=False,
            states=_states(maintained, definition),
        )
        if (old := before.get(name)) is None:
            return view
        again = failed_again(old, view)
        lost = has_lost_history(error) and name in intent.catch_ups and old.held
        return without_history(again) if lost else again

    def leave_out(
        self, intent: Intent, failed: Mapping[str, FailedView], maintained: Maintained, before: Mapping[str, FailedView]
    ) -> Intent:
        """Stores the intent without views that failed and the views that read them, after fencing off their tasks."""
        all_failed = {**intent.failed, **failed}
        for name, root in maintained.dependants_of(all_failed).items():
            states = _states(maintained, maintained.definitions[name])
            view = structs.replace(all_failed[root], because=root, states=states, diagnosed=True)
            old = before.get(name)
            all_failed[name] = view if old is None else failed_again(old, view)
        self.tenure.fence()
        left = structs.replace(intent, failed=all_failed, term=self.tenure.term)
        self.store.change_documents({INTENT.name: left}, term=left.term)
        faults.point("view.failed")
        return left

    def roll_back(self, intent: Intent, maintained: Maintained, before: Collection[str]) -> None:
        """Takes back what the epoch wrote to states that only failed views keep."""
        live = maintained.without({*before, *intent.failed} - self.recovered(intent)).live_states
        states = self.states_of(maintained, intent.failed) - live
        for index in range(self.store.shards):
            self.store.shard(index).roll_back(intent.epoch - 1, sorted(states))
            faults.point("view.undone")

    @staticmethod
    def states_of(maintained: Maintained, names: Collection[str]) -> frozenset[int]:
        """All states of views, their rows included. Dropped views have none."""
        known = [maintained.definitions[name] for name in names if name in maintained.definitions]
        return frozenset(state for view in known for state in _states(maintained, view))

    @staticmethod
    def recovered(intent: Intent) -> set[str]:
        """The failed views that the epoch catches up, as far as none of them has failed again."""
        return intent.catch_ups.keys() - intent.failed.keys()

    # after the commit

    def store_failed(self, name: str, view: FailedView) -> None:
        """Stores what is known about a failed view, also for the views that read it."""
        documents = failed_documents(name, view)
        for reader, failed in read_failed(self.store).items():
            if failed.because == name:
                documents[FAILED.at(reader)] = structs.replace(failed, **{f: getattr(view, f) for f in ERROR})
        self.store.change_documents(documents, term=self.tenure.term)

    # the commit

    def commit_documents(self, intent: Intent, before: Mapping[str, FailedView]) -> dict[str, Any]:
        """The documents that the commit of an epoch changes for failed and recovered views."""
        documents: dict[str, Any] = {}
        for name in self.recovered(intent):
            documents.update(recovered_documents(name))
        for name, view in {**before, **intent.failed}.items():
            kept = within_limit(view, intent.end)
            if name in intent.failed or kept != view:
                documents.update(failed_documents(name, kept))
        return documents


def has_lost_history(error: EpochFailed) -> bool:
    """Whether a view cannot be caught up by deltas, because the log or the undo records are gone."""
    return isinstance(error.cause, LOST_HISTORY)


def without_history(failed: FailedView) -> FailedView:
    """A failed view whose log and undo records are given up: it is recomputed at the next attempt."""
    return structs.replace(failed, held=False, next_try=0.0)


def _states(maintained: Maintained, view: ViewDef) -> tuple[int, ...]:
    """The numbers of all states of a view, its rows included."""
    return tuple(sorted({view.state, *(maintained.states[p] for p in view.fingerprints)}))
