"""Views that have failed: their documents, when they are tried again, and what a reader is told.

    failed:<view>    the last epoch that the view shows, why the next one failed, and the attempts since
    hold:<view>      keeps the log and the undo records since that epoch (`store/pins.py`), up to `HELD_OPERATIONS`

A view whose job fails is left out of the epoch, and so are the views that read it. They keep the rows of their last
good epoch; all other views move on. An epoch of its own catches a failed view up: by the net delta of the whole range
since its last good epoch or, if the log is gone, by recomputing it.
"""

from __future__ import annotations

import hashlib
import time
from collections.abc import Mapping
from contextlib import suppress
from typing import Any

from msgspec import structs

from tailrace.codec.schema import TableDef
from tailrace.errors import Conflict, ViewFailed
from tailrace.store.base import Cut, Past, Store
from tailrace.store.commits import read_committed
from tailrace.store.documents import Count, Document, Kind, Number
from tailrace.store.pins import HOLDS, Hold

HELD_OPERATIONS = 5_000_000  # logged operations that are kept for a failed view; beyond, it is recomputed
FIRST_PAUSE, LONGEST_PAUSE = 1.0, 300.0  # seconds between two attempts of a runner; doubled after each failure


class FailedView(Document, frozen=True):
    """A view that has failed.

    epoch, cut, time      the last good epoch, which readers see, its cut and its time
    failed_at, at         the epoch that failed, and when
    reason                the error
    operator, expression  the operator of the plan that failed, and its expression
    key                   the key of one of the rows on which it fails
    table, row, seen      if that row is one of a table: the table's number, the row's encoded key in hex, and a digest
                          of the row as it was at the last attempt. Until the row changes, the view fails on it
    because               the failed view that this one reads; the error is then that view's
    held                  whether log and undo records since `epoch` are kept
    tries, tried          the failed attempts so far, and the cut of the last one
    next_try              when a runner tries again, in seconds since 1970; 0: at once, even without new changes
    trying                whether a runner has begun to try again, and has not recorded the outcome
    diagnosed             whether operator, expression and key were searched for after the last failure
    built                 whether it has rows at all; not if it could not be built when a dump was restored
    states                the numbers of its states, its rows included, when it failed
    """

    epoch: Count
    cut: Cut
    failed_at: Count
    at: float
    reason: str
    operator: str = ""
    expression: str = ""
    key: str = ""
    table: Count = 0
    row: str = ""
    seen: str = ""
    because: str = ""
    held: bool = True
    tries: Count = 1
    tried: Cut | None = None
    next_try: float = 0.0
    trying: bool = False
    diagnosed: bool = True
    built: bool = True
    states: tuple[Number, ...] = ()
    time: Count = 0

    def fits(self, nodes: int) -> bool:
        return all(len(cut.offsets) == nodes for cut in (self.cut, self.tried) if cut is not None)

    @property
    def shows(self) -> str:
        """What its readers see."""
        return f"shows epoch {self.epoch}" if self.built else "shows nothing, because it could not be built"

    @property
    def next_step(self) -> str:
        """When it is tried again."""
        if self.because:
            return f"it is tried again together with {self.because}"
        if self.trying or not self.diagnosed:
            return "it is being tried"
        if self.next_try == 0.0:
            return "it is tried next"
        if self.row:
            return "it is tried again when that row changes"
        pause = f"in {max(self.next_try - time.time(), 0.0):,.0f} s"
        return f"it is tried again {pause}" + (", if a table that it reads has changed" if self.key else "")

    @property
    def message(self) -> str:
        """The error as a sentence: what failed, on which row, and why."""
        through = f"it reads view {self.because!r}, which has failed: " if self.because else ""
        where = " ".join(filter(None, (self.operator, self.expression)))
        row = f" on the row {self.key}" if self.key else ""
        return through + (f"{where}{row}: {self.reason}" if where or row else self.reason)


FAILED: Kind[FailedView] = Kind("failed:", FailedView)


def read_failed(store: Store) -> dict[str, FailedView]:
    """All failed views by name."""
    return store.documents(FAILED)


def failed_documents(name: str, failed: FailedView) -> dict[str, Any]:
    """The documents that mark a view as failed and keep what it needs to catch up."""
    hold = Hold(failed.epoch, failed.cut) if failed.held else None
    return {FAILED.at(name): failed, HOLDS.at(name): hold}


def recovered_documents(name: str) -> dict[str, Any]:
    """The documents that remove the mark of a failed view."""
    return {FAILED.at(name): None, HOLDS.at(name): None}


def failed_again(old: FailedView, new: FailedView) -> FailedView:
    """The state of a view after another failed attempt: the new error, the old epoch and states, a longer pause."""
    return structs.replace(
        new,
        epoch=old.epoch,
        cut=old.cut,
        time=old.time,
        failed_at=old.failed_at,
        held=old.held,
        built=old.built,
        states=old.states,
        tries=old.tries + 1,
        next_try=time.time() + pause_after(old.tries),
    )


def unbuilt(store: Store, reason: str) -> FailedView:
    """A view that cannot be built from the tables as they are now."""
    done, now = read_committed(store), time.time()
    return FailedView(
        epoch=done.epoch,
        cut=done.cut,
        time=done.time,
        failed_at=done.epoch,
        at=now,
        reason=reason,
        tried=done.cut,
        next_try=now + FIRST_PAUSE,
        diagnosed=False,
        built=False,
        held=False,
    )


def pause_after(tries: int) -> float:
    """The seconds after this many failed attempts before a runner tries again."""
    return min(FIRST_PAUSE * 2.0 ** min(tries, 20), LONGEST_PAUSE)


def digest_row(store: Store, table: TableDef | None, key: str, cut: Cut) -> str:
    """A digest of the row under an encoded key (in hex) at a cut; empty if there is no row."""
    encoded = bytes.fromhex(key)
    rows = {} if table is None else store.get(table, [encoded], Past(cut))
    return hashlib.blake2b(rows[encoded], digest_size=16).hexdigest() if encoded in rows else ""


def within_limit(failed: FailedView, end: Cut) -> FailedView:
    """Gives up the log of a view that is too far behind."""
    is_too_far = end.operations - failed.cut.operations > HELD_OPERATIONS
    return structs.replace(failed, held=False) if is_too_far and failed.held else failed


def is_due(failed: FailedView, tables: Mapping[int, TableDef], store: Store, end: Cut, *, eager: bool) -> bool:
    """Whether to try a view again now, up to cut `end`. `tables` are those that it reads.

    If the row on which it fails is known, and is as it was, the view would fail on it again; if it has changed, the
    view is tried at once. Other failures can go away only if a table of the view has changed since the last attempt. A
    failure of unknown cause (no row was found on which it fails) may also have been a lack of memory, so it is tried
    again without changes. Without a log, any write may have changed a table of the view.
    An `eager` caller, who asked for a refresh, does not wait for the pause between two attempts to end.
    """
    if failed.next_try == 0.0:
        return True
    if failed.row:
        return digest_row(store, tables.get(failed.table), failed.row, end) != failed.seen
    if not eager and time.time() < failed.next_try:
        return False
    if not (failed.key or failed.because) and time.time() >= failed.next_try:
        return True
    tried = failed.tried or failed.cut
    if not tried.is_before(end):
        return False
    return not failed.held or not tables.keys().isdisjoint(store.touched(tried, end, checked=False))


def ask_to_resume(store: Store, names: Mapping[str, FailedView]) -> None:
    """Makes the next epoch try these views again. A view that has recovered meanwhile is left alone."""
    for name, read in names.items():
        failed: FailedView | None = read
        while failed is not None and failed.next_try != 0.0:
            asked = {FAILED.at(name): structs.replace(failed, next_try=0.0)}
            with suppress(Conflict):
                store.change_documents(asked, expected={FAILED.at(name): failed})
            failed = store.document(FAILED, name)


def view_failed(name: str, failed: FailedView) -> ViewFailed:
    """The error for a reader who needs more than the last good epoch of a failed view."""
    data = {"name": name, "epoch": failed.failed_at, "shown": failed.epoch, "reason": failed.message}
    if not failed.built:
        data["text"] = (
            f"view {name!r} could not be built, so it has no rows. Reason: {failed.message}."
            " Correct or delete the row: the view is then built by itself. Or replace the view"
        )
    return ViewFailed(**data)
