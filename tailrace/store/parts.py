"""The part of the tables that a view being built has taken in.

    part(T) = rows of T whose key is at most its node's bound
    delta(part over an epoch) = log of the epoch, keys up to the old bound  +  rows at its end, keys between the bounds

So a half-built view is at every commit its query over these parts, at the same cut as all other views: it needs no old
log to catch up with, and once the bounds are past all keys it is finished.
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

NOTHING, EVERYTHING = "", "*"  # bounds before the first and after the last key; any other is the key, in hex
Bound = Annotated[str, msgspec.Meta(pattern=r"\A(\*|([0-9a-f]{2}){0,511})\Z")]
Bounds = Mapping[Number, tuple[Bound, ...]]  # per table id, one for each node


@dataclass(frozen=True)
class Part:
    """Bounds before and after an epoch."""

    loaded: Bounds
    coming: Bounds

    def only_loaded(
        self, batch: pa.RecordBatch, table: TableDef, node: int, positions: Sequence[int], limit: KeyLimit
    ) -> pa.RecordBatch:
        """The rows of a batch, whose columns are those at `positions`, that the part had before the epoch."""
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
        """The rows at the end of the epoch that come into the part."""
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
    """The bounds when the next `count` rows, or `size` bytes of them, have come in, and how many; None if all have."""
    for table in tables:
        bounds = loaded.get(table.id, (NOTHING,) * store.nodes)
        left = [node for node, bound in enumerate(bounds) if bound != EVERYTHING]
        if not left:
            continue
        moved, rows = list(bounds), 0
        for node in left:
            most = max(1, count // len(left)), size // len(left)
            key, passed = store.step(table, node, bytes.fromhex(bounds[node]), *most)
            moved[node] = EVERYTHING if key is None else key.hex()
            rows += passed
        return {**loaded, table.id: tuple(moved)}, rows
    return None
