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
    FIRST_PAUSE,
    FailedView,
    failed_again,
    failed_documents,
    is_due,
    recovered_documents,
    within_limit,
)
from tailrace.epochs.blame import Cause
from tailrace.epochs.maintained import Maintained
from tailrace.epochs.model import INTENT, CatchUp, Intent
from tailrace.errors import Corrupt, EpochFailed, OffsetGap, SnapshotGone
from tailrace.store.base import Cut, Store
from tailrace.store.commits import Committed
from tailrace.store.locks import Tenure

LOST_HISTORY = (Corrupt, OffsetGap, SnapshotGone)  # a view cannot catch up by deltas any more


@dataclass(frozen=True)
class FailingViews:
    """The failed views of one store. The caller holds the epoch lock."""

    store: Store
    tenure: Tenure

    # which views to try again

    def choose_catch_ups(
        self, failed: Mapping[str, FailedView], maintained: Maintained, end: Cut, *, eager: bool
    ) -> dict[str, CatchUp]:
        """The failed views that an epoch tries again. Views that read a failed view are tried together with it."""
        live = maintained.without(failed).live_states if failed else frozenset[int]()
        due = {name for name, f in failed.items() if not f.because and self._is_due(name, f, maintained, end, eager)}
        chosen = {}
        for name, view in failed.items():
            is_orphan = view.because not in failed
            if name in due or view.because in due or (view.because and is_orphan and name in maintained.definitions):
                base = view.epoch if self._can_catch_up(maintained, name, view, live) else None
                chosen[name] = CatchUp(base, view.cut, view.time)
        return chosen

    def _is_due(self, name: str, view: FailedView, maintained: Maintained, end: Cut, eager: bool) -> bool:
        definition = maintained.definitions.get(name)
        return definition is not None and is_due(view, definition.tables, self.store, end, eager=eager)

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
        cause: Cause,
        done: Committed,
        intent: Intent,
        maintained: Maintained,
        before: Mapping[str, FailedView],
    ) -> FailedView:
        """What is recorded of a view that failed in this epoch, for the first time or again."""
        definition, now = maintained.definitions[name], time.time()
        view = FailedView(
            epoch=done.epoch,
            cut=done.cut,
            time=done.time,
            failed_at=intent.epoch,
            at=now,
            reason=cause.reason or str(error.reason),
            operator=cause.operator,
            expression=cause.expression,
            key=cause.key,
            tried=intent.end,
            next_try=now + FIRST_PAUSE,
            states=_states(maintained, definition),
        )
        if (old := before.get(name)) is None:
            return view
        again = failed_again(old, view)
        lost = isinstance(error.cause, LOST_HISTORY) and name in intent.catch_ups and old.held
        return structs.replace(again, held=False, next_try=0.0) if lost else again

    def leave_out(
        self, intent: Intent, failed: Mapping[str, FailedView], maintained: Maintained, before: Mapping[str, FailedView]
    ) -> Intent:
        """Stores the intent without views that failed and the views that read them, after fencing off their tasks."""
        all_failed = {**intent.failed, **failed}
        for name, root in maintained.dependants_of(all_failed).items():
            states = _states(maintained, maintained.definitions[name])
            view = structs.replace(all_failed[root], because=root, states=states)
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


def _states(maintained: Maintained, view: ViewDef) -> tuple[int, ...]:
    """The numbers of all states of a view, its rows included."""
    return tuple(sorted({view.state, *(maintained.states[p] for p in view.fingerprints)}))
