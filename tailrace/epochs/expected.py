"""Views built anew in a scratch store, to compare what is maintained with what it should be.

state = rule(tables at a cut)        of every state of the views, with nothing there before
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
    """Fills the empty shards of a scratch store; in the same ways as views are built, so memory is that of a chunk."""

    def __init__(self, scratch: Store, spark: Callable[[], SparkSession]) -> None:
        super().__init__(scratch, Unlocked(), spark)

    def run(self, maintained: Maintained, cut: Cut) -> int:
        """Fill views and their states from the tables at a cut; the epoch at which they can be read."""
        large = self._size(maintained) > construction.AT_ONCE
        chunked = [v for v in maintained.views if large and v.plan.is_chunked]
        rest = [v for v in maintained.views if v not in chunked]
        epoch = self._in_chunks(replace(maintained, views=chunked), cut) if chunked else 0
        if rest:
            epoch, only = epoch + 1, replace(maintained, views=rest)
            work = Assignment(epoch, epoch, None, cut, maintained.states_of(chunked))
            self._work(work, only, None, self._size(only))
        return epoch

    def _in_chunks(self, maintained: Maintained, cut: Cut) -> int:
        read = sorted({number for view in maintained.views for number in view.plan.tables})
        order = construction.sort_tables(read, {n: self._store.count(maintained.tables[n]) for n in read})
        listed = [maintained.tables[n] for n in order]
        loaded: Bounds = {}
        epoch = 0
        while chunk := next_chunk(self._store, listed, loaded, construction.CHUNK, construction.CHUNK_BYTES):
            coming, rows = chunk
            epoch += 1
            work = Assignment(epoch, epoch - 1, cut, cut, part=Part(loaded, coming))
            concerned = frozenset(n for n, bounds in coming.items() if loaded.get(n) != bounds)
            self._work(work, maintained, concerned if loaded else None, rows, "rebuild")
            loaded = coming
        return epoch
