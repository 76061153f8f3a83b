"""How far the views of a query are behind the tables, and catching up before it."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field

from tailrace.catalog.failed import FailedView
from tailrace.database.waiting import PATIENCE, LatestEpoch
from tailrace.errors import EpochsLocked, Timeout
from tailrace.store.base import Cut, Store
from tailrace.store.commits import read_committed
from tailrace.store.pins import Pin
from tailrace.words import count

_LOOK = 1.0  # seconds after which a waiting process looks again whether another one runs epochs


@dataclass(frozen=True)
class Freshness:
    """The state that a query of views has read: its epoch, and how far that is behind the tables."""

    epoch: int
    lag_operations: int
    lag_seconds: float
    failed: Mapping[str, str] = field(default_factory=dict)
    """Views that have failed, so that they show an earlier epoch: which one, and why."""

    def __str__(self) -> str:
        lag = f"{count(self.lag_operations, 'operation')} ({self.lag_seconds:,.1f} s) behind the tables"
        failed = "".join(f"; {name} {what}" for name, what in self.failed.items())
        return f"views at epoch {self.epoch}, {lag if self.lag_operations else 'up to date'}{failed}"


def measure_freshness(store: Store, pin: Pin, newest: Cut, failed: Mapping[str, FailedView]) -> Freshness:
    """How far a pinned epoch is behind the newest cut. `failed` are the views of the query that have failed."""
    written = store.written_after(pin.cut) if pin.cut.is_before(newest) else None
    seconds = max(0.0, time.time() - written) if written is not None else 0.0
    told = {name: f"has failed and {f.shows}: {f.message}" for name, f in sorted(failed.items())}
    return Freshness(pin.epoch, newest.operations - pin.cut.operations, seconds, told)


def catch_up(store: Store, refresh: Callable[[], object]) -> None:
    """Returns when the views include everything that is written now.

    Runs epochs, or waits for the process that runs them. Raises `Timeout` if that process commits no epoch for
    `PATIENCE` seconds.
    """
    store.catch_up()
    position = store.newest_cut().position
    epoch, since = -1, time.monotonic()
    while not (done := read_committed(store)).cut.covers(position):
        try:
            with store.lock("runner"):
                refresh()
        except EpochsLocked:
            if done.epoch != epoch:
                epoch, since = done.epoch, time.monotonic()
            try:
                LatestEpoch(store).wait("the committed epoch", position, _LOOK)
            except Timeout:
                if time.monotonic() - since > PATIENCE:
                    raise
