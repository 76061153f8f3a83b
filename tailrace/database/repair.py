"""Mending what an audit found, in one epoch of its own.

    under the epoch lock     an epoch that was left open is taken back; marks, undo records, notes, documents are mended
    the repair epoch         number e + 1, at the committed cut: views that may be wrong are computed anew, and what
                             differs is written, with undo records, as in any epoch
    log damaged              the same, of all views and at the newest cut: the damaged range is passed over, as all that
                             it said is in the tables

Epochs may have gone by since the audit: what is right is computed at the cut that is committed now. The epoch is
written down before anything is touched, so that after a crash the next refresh finishes it.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence

from tailrace.catalog import construction
from tailrace.catalog.catalog import Catalog
from tailrace.epochs.maintained import maintained
from tailrace.epochs.model import INTENT
from tailrace.epochs.protocol import Epochs
from tailrace.errors import EpochFailed
from tailrace.store.base import Cut, Store
from tailrace.store.commits import read_committed
from tailrace.store.locks import EpochLock
from tailrace.verify.audit.findings import Finding, affected_views
from tailrace.verify.audit.fsck import fsck_documents
from tailrace.verify.audit.state_names import describe_states

GIVEN_UP = "what it had so far, or the log that it needs, was damaged; create the view again"


class Repairer:
    """Mends one store. The caller has the epoch lock."""

    def __init__(self, store: Store, catalog: Catalog, epochs: Epochs, lock: EpochLock) -> None:
        self._store, self._catalog, self._epochs, self._lock = store, catalog, epochs, lock
        self._repairs = store.repairs()

    def repair(self, structure: Callable[[], list[Finding]], views: Collection[str]) -> None:
        """Mend the structure, as it is found to be now, and compute anew these views and those that rest on it."""
        documents = fsck_documents(self._store)
        self._do_without(documents)
        if any(not f.repairable for f in documents):
            return  # without its catalog nothing can be said of the rest
        lost = self._taken_back()
        found = [f for f in structure() if f.repairable]
        done = read_committed(self._store)
        end = self._end({f.place[0] for f in found}, done.cut)
        self._give_up_builds(found, lost, end != done.cut)
        known = self._catalog.views
        wrong = (
            set(known) if end != done.cut else {*views, *affected_views(found), *self._resting_on(lost)} & set(known)
        )
        if not wrong and end == done.cut:
            self._mend(found, done.epoch)
        else:
            self._epoch({name: known[name].state for name in wrong}, end, found, done.epoch)
        self._epochs.trim()

    def _epoch(self, views: Mapping[str, int], end: Cut, found: Sequence[Finding], epoch: int) -> None:
        try:
            self._epochs.repair(maintained(self._catalog), views, end, lambda: self._mend(found, epoch))
        except EpochFailed:
            self._taken_back()  # nobody else could finish it either: epochs are not to be held up by it
            raise

    def _taken_back(self) -> set[int]:
        """Take an open epoch back, and fence off its tasks; returns the states for which that was not possible.

        The number of that epoch is never used again: a task that outlived its driver may still name it.
        """
        intent, done = self._store.document(INTENT), read_committed(self._store).epoch
        last = done if intent is None else max(intent.epoch, done)
        self._lock.fence(burnt=last)
        lost = {state for epoch in range(last, done, -1) for _, state in self._repairs.roll_back(epoch)}
        self._store.change_documents({INTENT.name: None}, term=self._lock.term)
        return lost

    def _resting_on(self, numbers: Collection[int]) -> set[str]:
        known = describe_states(self._catalog)
        return {name for number in numbers if number in known for name in known[number].views}

    def _do_without(self, documents: Sequence[Finding]) -> None:
        self._store.change_documents({f.place[1]: None for f in documents if f.repairable})

    def _mend(self, found: Sequence[Finding], epoch: int) -> None:
        by_id = {t.id: t for t in self._catalog.tables.values()}
        for kind, *about in dict.fromkeys(f.place for f in found):
            if kind in ("mark", "undo"):
                self._repairs.reset_state(about[0], about[1], epoch)
            elif kind == "orphan":
                self._store.drop_state(about[0])
            elif kind == "count":
                self._repairs.add_to_count(by_id[about[0]], about[1])

    def _end(self, kinds: Collection[str], done: Cut) -> Cut:
        """Where the repair epoch ends: at the committed cut, unless the log after it cannot be used."""
        if "notes" in kinds:
            return self._repairs.rebuild_transactions(done)
        return self._store.newest_cut() if "log" in kinds else done

    def _give_up_builds(self, found: Sequence[Finding], lost: Collection[int], log: bool) -> None:
        """Builds whose states are damaged, or that need a log that is: they are begun anew by their users."""
        wrong = {f.place[2] for f in found if f.place[0] in ("mark", "undo")} | set(lost)
        for making in self._catalog.builds.values():
            if not making.failed and (log or wrong & set(making.unpublished.numbers)):
                construction.give_up(self._store, making.name, GIVEN_UP)
