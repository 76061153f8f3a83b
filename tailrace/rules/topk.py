"""The first rows of each partition, in order.

    partition, order, ties  →  weight, row                                         all rows, sorted
    Δ = -first(n, old entries of p) + first(n, new entries of p)                   for every partition p in the delta

Old and new entries are one walk from the front of the partition: stored entries, with the delta's laid over
them, until both have had n = offset + limit rows. So an entry is read for each row that is asked for and for each
that the delta took away before them, never the partition. Without LIMIT the answer is all but the first
`offset` rows, and its delta the input's less that of those.

An order column too long for a key is clipped (`store/key_limit.py`), and entries that begin alike are no longer sorted;
such a run is read as a whole and sorted by its rows.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import NamedTuple

import numpy as np
import pyarrow as pa

from tailrace import types
from tailrace.codec.arrays import join_cells
from tailrace.codec.keys import Direction, KeyCodec, digest, prefix_range
from tailrace.codec.weighted import row_of, weight_of
from tailrace.delta import WEIGHT, column
from tailrace.plan.nodes import Order, TopK
from tailrace.plan.ties import ties
from tailrace.rules.arranged import Arranged, EncodedRows
from tailrace.rules.before import Before
from tailrace.rules.sink import positional_schema
from tailrace.store.base import Write
from tailrace.store.key_limit import KeyLimit
from tailrace.types import Column

AHEAD = 256  # entries read at a time, at most


class Entry(NamedTuple):
    """A place in the order, and what stood and stands there (None: nothing)."""

    key: bytes
    old: bytes | None
    new: bytes | None


@dataclass(frozen=True)
class Ordered(Arranged):
    """An arrangement by partition whose rows are identified, within it, by their place in the order."""

    order: Order = ()
    ties: tuple[int, ...] = ()

    @cached_property
    def _sort(self) -> KeyCodec:
        positions = [*(p for p, _, _ in self.order), *self.ties]
        directions = [Direction(ascending, nulls_first) for _, ascending, nulls_first in self.order]
        return KeyCodec([types.arrow(self.columns[p].type) for p in positions], directions)

    def sort_keys(self, table: pa.Table, rows: pa.LargeBinaryArray) -> pa.LargeBinaryArray:
        """What rows are sorted by. Without a key, a digest tells apart what SQL takes for equal: 0.0 and -0.0."""
        positions = [*(p for p, _, _ in self.order), *self.ties]
        keys = self._sort.encode([table.column(column(p)) for p in positions], table.num_rows)
        if self.key is not None:
            return keys
        return join_cells([keys, pa.array([digest(r) for r in rows.to_pylist()], pa.large_binary())])

    def entry_keys(self, net: EncodedRows) -> pa.LargeBinaryArray:
        return join_cells([net.groups, self.limit.shorten_part(self.sort_keys(net.table, net.rows))])

    def entries(self, group: bytes, changed: dict[bytes, bytes | None], before: Before, ahead: int) -> Iterator[Entry]:
        """The entries of a partition in order, `changed` ones and those before the epoch, read as they are wanted."""
        run: list[Entry] = []
        exact = self.limit.exact_part
        for entry in self._stored(group, changed, before, ahead):
            place = entry.key[len(group) :]
            if run and place[:exact] != run[0].key[len(group) :][:exact]:
                yield from self._in_order(run)
                run = []
            if len(place) > exact:
                run.append(entry)
            else:
                yield entry
        yield from self._in_order(run)

    def _stored(self, group: bytes, changed: dict[bytes, bytes | None], before: Before, ahead: int) -> Iterator[Entry]:
        pending = sorted(changed, reverse=True)
        for key, old in before.scan(self.state, *prefix_range(group), ahead=ahead):
            while pending and pending[-1] < key:
                yield Entry(fresh := pending.pop(), None, changed[fresh])
            if pending and pending[-1] == key:
                yield Entry(pending.pop(), old, changed[key])
            else:
                yield Entry(key, old, old)
        for key in reversed(pending):
            yield Entry(key, None, changed[key])

    def _in_order(self, run: list[Entry]) -> list[Entry]:
        run = [e for e in run if e.old is not None or e.new is not None]
        if len(run) < 2:
            return run
        rows = pa.array([row_of(e.new or e.old or b"") for e in run], pa.large_binary())
        exact = self.sort_keys(pa.Table.from_batches([self._rows.decode(rows)]), rows).to_pylist()
        return [run[i] for i in sorted(range(len(run)), key=exact.__getitem__)]


@dataclass(frozen=True)
class First:
    """Gives what a delta changes in the first rows of each partition."""

    input: Ordered
    columns: tuple[Column, ...]
    offset: int
    limit: int | None
    numbered: bool

    @classmethod
    def of(cls, node: TopK, state: int, limit: KeyLimit) -> First:
        source = node.input
        decided = ties(source, node.partition, node.order)
        ordered = Ordered(state, source.columns, source.key, node.partition, limit, node.order, decided)
        return cls(ordered, node.columns, node.offset, node.limit, node.numbered)

    @cached_property
    def output(self) -> pa.Schema:
        return positional_schema(self.columns).append(pa.field(WEIGHT, pa.int64()))

    def step(self, deltas: Sequence[pa.Table], before: Before) -> tuple[pa.Table | None, list[Write]]:
        (delta,) = deltas
        net = self.input.encode_net(delta)
        keys = self.input.entry_keys(net)
        write = self.input.make_write(net, keys, before)
        news = dict(zip(write.keys.to_pylist(), write.values.to_pylist(), strict=True))
        touched: dict[bytes, dict[bytes, bytes | None]] = defaultdict(dict)
        for key, group in zip(keys.to_pylist(), net.groups.to_pylist(), strict=True):
            touched[group][key] = news[key]
        found: dict[tuple[bytes, int], int] = defaultdict(int)
        if self.limit is None:
            for row, weight in zip(net.rows.to_pylist(), net.weights.tolist(), strict=True):
                found[row, 0] += weight
        for group, changed in touched.items():
            self._walk(group, changed, before, found)
        return self._table({at: weight for at, weight in found.items() if weight}), [write]

    def _walk(
        self, group: bytes, changed: dict[bytes, bytes | None], before: Before, found: dict[tuple[bytes, int], int]
    ) -> None:
        """Add what changes in one partition; `found` counts rows by their bytes and number (0: not numbered)."""
        start, end, sign = (0, self.offset, -1) if self.limit is None else (self.offset, self.offset + self.limit, 1)
        ahead = min(AHEAD, end + len(changed) + 1)
        seen = [0, 0]
        for entry in self.input.entries(group, changed, before, ahead) if end else ():
            for side, value, weight in ((0, entry.old, -sign), (1, entry.new, sign)):
                if value is None:
                    continue
                first, after = seen[side], seen[side] + weight_of(value)
                self._count(row_of(value), max(first, start), min(after, end), weight, found)
                seen[side] = after
            if min(seen) >= end:
                return

    def _count(self, row: bytes, first: int, after: int, weight: int, found: dict[tuple[bytes, int], int]) -> None:
        if self.numbered:
            for number in range(first, after):
                found[row, number + 1] += weight
        elif after > first:
            found[row, 0] += weight * (after - first)

    def _table(self, found: dict[tuple[bytes, int], int]) -> pa.Table:
        table = pa.Table.from_batches([self.input._rows.decode([row for row, _ in found])])
        columns = table.columns
        if self.numbered:
            columns.append(pa.array([number for _, number in found], pa.int32()))
        weights = pa.array(np.fromiter(found.values(), np.int64, len(found)))
        return pa.Table.from_arrays([*columns, weights], schema=self.output)
