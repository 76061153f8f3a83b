"""Admission: writers are slowed when views fall far behind, so that the lag stays bounded.

    delay  =  min(LONGEST, (lag - max_lag) / max_lag)  seconds, before a write that finds lag > max_lag

`lag` is the number of operations that are logged and not yet in views. A write waits no longer than until the lag is
back at max_lag, and only while somebody runs epochs: without, nothing would be gained. No write is refused.
"""

from __future__ import annotations

import time
from dataclasses import dataclass

from tailrace.errors import DataError
from tailrace.store.base import Store
from tailrace.store.commits import read_committed
from tailrace.store.documents import Count, Kind

MAX_LAG_SETTING: Kind[int] = Kind("max_lag", Count)
MAX_LAG = 1_000_000  # operations; a large epoch takes on that many in seconds
LONGEST = 5.0  # seconds that one write waits at most
STEP = 0.01  # seconds between two looks at the lag


@dataclass(frozen=True)
class Lag:
    """How many operations views are behind, how many they may be, and what a write waits for that now."""

    operations: int
    allowed: int

    @property
    def delay(self) -> float:
        return min(LONGEST, max(0, self.operations - self.allowed) / self.allowed)


def lag(store: Store) -> Lag:
    done = read_committed(store).cut  # first: an epoch that is committed in between must not make the lag negative
    return Lag(store.newest_cut().operations - done.operations, allowed(store))


def allowed(store: Store) -> int:
    return store.document(MAX_LAG_SETTING) or MAX_LAG


def allow(store: Store, operations: int) -> None:
    """Set how many operations views may be behind before writers are slowed."""
    if operations < 1:
        raise DataError(message=f"max_lag is a number of operations, at least 1, not {operations}")
    if allowed(store) != operations:
        store.change_documents({MAX_LAG_SETTING.name: operations})


def admit(store: Store) -> None:
    """Wait as long as a write has to wait now."""
    began = time.monotonic()
    delay = lag(store).delay
    while delay and (left := began + delay - time.monotonic()) > 0 and store.holder("runner") and lag(store).delay:
        time.sleep(min(STEP, left))
