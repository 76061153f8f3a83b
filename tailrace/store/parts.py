"""Parts: the rows of each table that a view under construction has loaded.

    part(T) = rows of T whose key is at most its node's bound
    delta(part over an epoch) = log of the epoch, keys up to the old bound  +  rows at its end, keys between the bounds

At every commit a half-built view equals its query over these parts, at the same cut as all other views. So it never
has to catch up from an old log, and it is complete when all bounds are EVERYTHING.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Annotated

import msgspec
import pyarrow as pa
import pyarrow.compute as pc

from tailrace.codec.schema import TableDef
from tailrace.store.base import Cut, Store
from tailrace.store.documents import Number
from tailrace.store.key_limit import KeyLimit

NOTHING, EVERYTHING = "", "*"  # bounds before the first and after the last key; other bounds are keys in hex
Bound = Annotated[str, msgspec.Meta(pattern=r"\A(\*|([0-9a-f]{2}){0,511})\Z")]
Bounds = Mapping[Number, tuple[Bound, ...]]  # by table id, one bound per node


@dataclass(frozen=True)
class Part:
    """The bounds of a build before an epoch (`loaded`) and after it (`coming`)."""

    loaded: Bounds
    coming: Bounds

    def only_loaded(
        self, batch: pa.RecordBatch, table: TableDef, node: int, positions: Sequence[int], limit: KeyLimit
    ) -> pa.RecordBatch:
        """Keeps the rows of a batch that were in the part before the epoch. `positions` are the batch's columns."""
        bound = self._bound(self.loaded, table, node)
        if bound == EVERYTHING:
            return batch
        if bound == NOTHING:
            return batch.slice(0, 0)
        columns = [batch.column(positions.index(p)) for p in table.positions]
        keys = limit.shorten(table.keys.encode(columns, batch.num_rows))
        return batch.filter(pc.less_equal(keys, pa.scalar(bytes.fromhex(bound), pa.large_binary())))

    def coming_rows(
        self, store: Store, table: TableDef, node: int, cut: Cut, positions: Sequence[int]
    ) -> Iterator[pa.RecordBatch]:
        """The rows that the epoch adds to the part, as of its end."""
        low, high = self._bound(self.loaded, table, node), self._bound(self.coming, table, node)
        if low != high:
            upto = None if high == EVERYTHING else bytes.fromhex(high)
            yield from store.rows(table, node, cut, positions, after=bytes.fromhex(low), upto=upto)

    @staticmethod
    def _bound(bounds: Bounds, table: TableDef, node: int) -> str:
        return bounds[table.id][node] if table.id in bounds else NOTHING


def next_chunk(
    store: Store, tables: Sequence[TableDef], loaded: Bounds, count: int, size: int
) -> tuple[Bounds, int] | None:
    """The bounds after the next chunk, of about `count` rows or `size` bytes, and its number of rows.

    None if all rows of all tables are loaded.
    """
    for table in tables:
        bounds = loaded.get(table.id, (NOTHING,) * store.nodes)
        unfinished = [node for node, bound in enumerate(bounds) if bound != EVERYTHING]
        if not unfinished:
            continue
        new_bounds, chunk_rows = list(bounds), 0
        for node in unfinished:
            limits = max(1, count // len(unfinished)), size // len(unfinished)
            key, rows = store.step(table, node, bytes.fromhex(bounds[node]), *limits)
            new_bounds[node] = EVERYTHING if key is None else key.hex()
            chunk_rows += rows
        return {**loaded, table.id: tuple(new_bounds)}, chunk_rows
    return None
