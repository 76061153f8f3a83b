"""Throttles writers while views are far behind, so that the lag stays bounded.

    delay  =  min(LONGEST, (lag - max_lag) / max_lag)  seconds before a write, if lag > max_lag

`lag` is the number of operations that are logged but not yet in the views. A waiting write continues as soon as the
lag is down to max_lag. Writes wait only while a process runs epochs: otherwise the lag would not shrink. No write is
refused.
"""

from __future__ import annotations

import time
from dataclasses import dataclass

from tailrace.errors import DataError
from tailrace.store.base import Store
from tailrace.store.commits import read_committed
from tailrace.store.documents import Count, Kind

MAX_LAG_SETTING: Kind[int] = Kind("max_lag", Count)
MAX_LAG = 1_000_000  # operations, the default; one large epoch processes as many in seconds
LONGEST = 5.0  # longest delay of one write, in seconds
STEP = 0.01  # seconds between two polls of the lag


@dataclass(frozen=True)
class Lag:
    """The number of operations that views are behind, and the number allowed before writes are delayed."""

    operations: int
    allowed: int

    @property
    def delay(self) -> float:
        """Seconds that a write waits at this lag."""
        return min(LONGEST, max(0, self.operations - self.allowed) / self.allowed)


def lag(store: Store) -> Lag:
    # The committed cut is read first: if an epoch commits between the two reads, the lag must not become negative.
    done = read_committed(store).cut
    return Lag(store.newest_cut().operations - done.operations, max_lag(store))


def max_lag(store: Store) -> int:
    return store.document(MAX_LAG_SETTING) or MAX_LAG


def set_max_lag(store: Store, operations: int) -> None:
    """Store the number of operations that views may be behind before writers are throttled."""
    if operations < 1:
        raise DataError(message=f"max_lag is {operations}; it must be at least 1 operation")
    if max_lag(store) != operations:
        store.change_documents({MAX_LAG_SETTING.name: operations})


def admit(store: Store) -> None:
    """Sleep as long as the present lag demands of a write."""
    began = time.monotonic()
    delay = lag(store).delay
    while delay and (left := began + delay - time.monotonic()) > 0 and store.holder("runner") and lag(store).delay:
        time.sleep(min(STEP, left))
