"""Rebuilds views in a scratch store, so that an audit can compare the maintained states with the expected ones.

expected state = rule(tables at a cut and time), starting from an empty state        for every state of the views
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

from pyspark.sql import SparkSession

from tailrace.catalog import construction
from tailrace.epochs.maintained import Maintained
from tailrace.epochs.protocol import Epochs
from tailrace.store.base import Cut, Store
from tailrace.store.locks import Unlocked
from tailrace.store.parts import Bounds, Part, next_chunk
from tailrace.task.assignment import Assignment


class ExpectedStates(Epochs):
    """Fills the empty shards of a scratch store. Large views are built chunk by chunk, to bound memory."""

    def __init__(self, scratch: Store, spark: Callable[[], SparkSession]) -> None:
        super().__init__(scratch, Unlocked(), spark)

    def run(self, maintained: Maintained, cut: Cut, time: int) -> int:
        """Builds views and their states from the tables at a cut and time. Returns the epoch to read them at."""
        is_large = self.jobs.count_input(maintained) > construction.AT_ONCE
        chunked = [v for v in maintained.views if is_large and v.plan.is_chunked]
        rest = [v for v in maintained.views if v not in chunked]
        epoch = self._build_in_chunks(replace(maintained, views=chunked), cut, time) if chunked else 0
        if rest:
            epoch, unchunked = epoch + 1, replace(maintained, views=rest)
            work = Assignment(epoch, epoch, None, cut, maintained.states_of(chunked), time=time)
            self.jobs.run_job(work, unchunked, None, self.jobs.count_input(unchunked))
        return epoch

    def _build_in_chunks(self, maintained: Maintained, cut: Cut, time: int) -> int:
        """Builds views with one epoch per chunk. Returns the last epoch."""
        numbers = sorted({number for view in maintained.views for number in view.plan.tables})
        order = construction.sort_tables(numbers, {n: self._store.count(maintained.tables[n]) for n in numbers})
        tables = [maintained.tables[n] for n in order]
        loaded: Bounds = {}
        epoch = 0
        while chunk := next_chunk(self._store, tables, loaded, construction.CHUNK, construction.CHUNK_BYTES):
            new_bounds, rows = chunk
            epoch += 1
            work = Assignment(epoch, epoch - 1, cut, cut, part=Part(loaded, new_bounds), time=time, earlier=time)
            changed = frozenset(n for n, bounds in new_bounds.items() if loaded.get(n) != bounds)
            self.jobs.run_job(work, maintained, changed if loaded else None, rows, "rebuild")
            loaded = new_bounds
        return epoch
