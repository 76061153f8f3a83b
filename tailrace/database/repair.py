"""Repairs what an audit found, in one epoch of its own.

    under the epoch lock     rolls back an open epoch; repairs marks, undo records, notes and documents
    the repair epoch         number e + 1, at the committed cut: recomputes the views that may be wrong, and writes
                             the differences, with undo records, as any epoch does
    log damaged              the same, for all views and at the newest cut: the damaged range is skipped, because
                             the tables contain everything that it logged
    copies of rows damaged   the same, at a cut from which on the copies are right (stores on HBase)

Epochs may have run since the audit, so correct content is computed at the cut that is committed now. The repair epoch
is recorded before anything is changed, so that after a crash the next refresh finishes it.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence

from msgspec import structs

from tailrace.catalog import construction
from tailrace.catalog.catalog import Catalog
from tailrace.catalog.failed import failed_documents
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

GIVEN_UP = "its states or the log that it needs were damaged; create the view again"


class Repairer:
    """Repairs one store. The caller holds the epoch lock."""

    def __init__(self, store: Store, catalog: Catalog, epochs: Epochs, lock: EpochLock) -> None:
        self._store, self._catalog, self._epochs, self._lock = store, catalog, epochs, lock
        self._repairs = store.repairs()

    def repair(self, structure: Callable[[], list[Finding]], views: Collection[str]) -> None:
        """Repair the structure, and recompute these views and those that depend on damaged states.

        `structure` audits the structure again, because it may have changed since the audit.
        """
        document_findings = fsck_documents(self._store)
        self._remove_damaged(document_findings)
        if any(not f.repairable for f in document_findings):
            return  # the catalog is unreadable, so nothing else can be checked
        lost_states = self._roll_back_open_epoch()
        findings = [f for f in structure() if f.repairable]
        done = read_committed(self._store)
        end = self._end(findings, done.cut)
        log_skipped = end != done.cut
        self._give_up_builds(findings, lost_states, log_skipped)
        known = self._catalog.views
        wrong = {*views, *affected_views(findings), *self._views_of_states(lost_states)} & set(known)
        if log_skipped:
            wrong = set(known)
        self._recompute_failed(wrong if not log_skipped else set(self._catalog.failed))
        wrong -= self._catalog.failed.keys()
        if wrong or log_skipped:
            self._run_epoch({name: known[name].state for name in wrong}, end, findings, done.epoch)
        else:
            self._repair_structure(findings, done.epoch)
        self._epochs.trim()
        self._store.finish_trimming()  # else the audit afterwards finds damaged entries that nobody needs any more

    def _run_epoch(self, views: Mapping[str, int], end: Cut, findings: Sequence[Finding], epoch: int) -> None:
        try:
            self._epochs.repair(maintained(self._catalog), views, end, lambda: self._repair_structure(findings, epoch))
        except EpochFailed:
            self._roll_back_open_epoch()  # a retry would fail, too, and block all later epochs
            raise

    def _roll_back_open_epoch(self) -> set[int]:
        """Roll back an open epoch and fence off its tasks. Returns the states that could not be rolled back.

        The number of that epoch is never used again: a task that outlived its driver may still use it.
        """
        intent, done = self._store.document(INTENT), read_committed(self._store).epoch
        last = done if intent is None else max(intent.epoch, done)
        self._lock.fence(burnt=last)
        lost = {state for _, state in self._repairs.roll_back(done)} if last > done else set()
        self._store.change_documents({INTENT.name: None}, term=self._lock.term)
        return lost

    def _recompute_failed(self, names: Collection[str]) -> None:
        """Make failed views catch up by recomputation instead of deltas, because their states or log are damaged."""
        for name, failed in self._catalog.failed.items():
            if name in names:
                self._store.change_documents(failed_documents(name, structs.replace(failed, held=False, next_try=0.0)))

    def _views_of_states(self, numbers: Collection[int]) -> set[str]:
        known = describe_states(self._catalog)
        return {name for number in numbers if number in known for name in known[number].views}

    def _remove_damaged(self, document_findings: Sequence[Finding]) -> None:
        self._store.change_documents({f.place[1]: None for f in document_findings if f.repairable})

    def _repair_structure(self, findings: Sequence[Finding], epoch: int) -> None:
        tables = {t.id: t for t in self._catalog.tables.values()}
        for kind, *about in dict.fromkeys(f.place for f in findings):
            if kind in ("mark", "undo"):
                self._repairs.reset_state(about[0], about[1], epoch)
            elif kind == "orphan":
                self._store.drop_state(about[0])
            elif kind == "leftovers":
                self._repairs.drop_leftovers(about[0])
            elif kind == "count":
                self._repairs.add_to_count(tables[about[0]], about[1])

    def _end(self, findings: Sequence[Finding], done: Cut) -> Cut:
        """The cut of the repair epoch: the committed cut, or a later one if the log after it is unusable."""
        kinds = {f.place[0] for f in findings}
        end = self._store.newest_cut() if "log" in kinds else done
        if "notes" in kinds:
            end = self._repairs.rebuild_transactions(done)
        if "rows" in kinds:
            wrong = {f.place[1] for f in findings if f.place[0] == "rows"}
            end = self._repairs.rebuild_rows([t for t in self._catalog.tables.values() if t.id in wrong])
        return end

    def _give_up_builds(self, findings: Sequence[Finding], lost_states: Collection[int], log_skipped: bool) -> None:
        """Mark builds as failed whose states are damaged or whose log is skipped. Users must start them again."""
        damaged = {f.place[2] for f in findings if f.place[0] in ("mark", "undo")} | set(lost_states)
        for making in self._catalog.builds.values():
            if not making.failed and (log_skipped or damaged & set(making.unpublished.numbers)):
                construction.give_up(self._store, making.name, GIVEN_UP)
