"""Counts the operations of an epoch's log range, per table."""

from __future__ import annotations

from collections.abc import Iterable

from tailrace.plan.physical.physical_plan import ViewSink
from tailrace.store.base import Cut, Store


class OperationCounts:
    """The number of operations per changed table in a log range. The last range's counts are cached."""

    def __init__(self, store: Store) -> None:
        self._store = store
        self._cached: tuple[Cut, Cut, dict[int, int]] | None = None

    def forget(self) -> None:
        self._cached = None

    def between(self, start: Cut, end: Cut, readers: Iterable[ViewSink]) -> dict[int, int]:
        """The counts between two cuts.

        Tasks verify the checksum of every log entry that they read. If no task of the views `readers` reads this range,
        it is verified here: an unchecked log range must never be committed.
        """
        if self._cached is None or self._cached[:2] != (start, end):
            counts = self._store.touched(start, end, checked=False)
            if not any(counts.keys() & view.plan.tables for view in readers):
                counts = self._store.touched(start, end)
            self._cached = start, end, counts
        return self._cached[2]
