"""Top-k: LIMIT, OFFSET and `row_number() <= k`, the first rows of each partition in order.

    partition, order, ties  →  weight, row                                         all rows, sorted
    Δ = -first(n, old entries of p) + first(n, new entries of p)                   for every partition p in the delta

One walk from the front of the partition merges the stored entries with the changed ones, until both old and new have
n = offset + limit rows. It reads the requested rows, and one entry for each row that the delta deleted among them,
never the whole partition. Without LIMIT the answer is all but the first `offset` rows: the input's delta minus the
delta of those rows.

Order columns too long for a key are shortened (`store/key_limit.py`). Entries with the same beginning are then not in
order. Such a run is read as a whole and sorted by its rows.
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

AHEAD = 256  # most entries read at a time


class Entry(NamedTuple):
    """An entry's key, and its value before and after the epoch (None: no entry)."""

    key: bytes
    old: bytes | None
    new: bytes | None


@dataclass(frozen=True)
class Ordered(Arranged):
    """An arrangement by partition, sorted by `order` within it. `ties` are the columns that break ties."""

    order: Order = ()
    ties: tuple[int, ...] = ()

    @cached_property
    def _sort(self) -> KeyCodec:
        positions = [*(p for p, _, _ in self.order), *self.ties]
        directions = [Direction(ascending, nulls_first) for _, ascending, nulls_first in self.order]
        return KeyCodec([types.arrow(self.columns[p].type) for p in positions], directions)

    def sort_keys(self, table: pa.Table, rows: pa.LargeBinaryArray) -> pa.LargeBinaryArray:
        """The sort key of each row. Without a key, a digest distinguishes rows that SQL treats as equal (0.0, -0.0)."""
        positions = [*(p for p, _, _ in self.order), *self.ties]
        keys = self._sort.encode([table.column(column(p)) for p in positions], table.num_rows)
        if self.key is not None:
            return keys
        return join_cells([keys, pa.array([digest(r) for r in rows.to_pylist()], pa.large_binary())])

    def entry_keys(self, net: EncodedRows) -> pa.LargeBinaryArray:
        return join_cells([net.groups, self.limit.shorten_part(self.sort_keys(net.table, net.rows))])

    def entries(self, group: bytes, changed: dict[bytes, bytes | None], before: Before, ahead: int) -> Iterator[Entry]:
        """The stored entries of a partition merged with the `changed` ones, in order. Reads lazily."""
        run: list[Entry] = []
        exact = self.limit.exact_part
        for entry in self._merged(group, changed, before, ahead):
            sort_key = entry.key[len(group) :]
            if run and sort_key[:exact] != run[0].key[len(group) :][:exact]:
                yield from self._sort_run(run)
                run = []
            if len(sort_key) > exact:
                run.append(entry)
            else:
                yield entry
        yield from self._sort_run(run)

    def _merged(self, group: bytes, changed: dict[bytes, bytes | None], before: Before, ahead: int) -> Iterator[Entry]:
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

    def _sort_run(self, run: list[Entry]) -> list[Entry]:
        """Sorts entries with shortened keys by the full sort keys of their rows."""
        run = [e for e in run if e.old is not None or e.new is not None]
        if len(run) < 2:
            return run
        rows = pa.array([row_of(e.new or e.old or b"") for e in run], pa.large_binary())
        sort_keys = self.sort_keys(pa.Table.from_batches([self._rows.decode(rows)]), rows).to_pylist()
        return [run[i] for i in sorted(range(len(run)), key=sort_keys.__getitem__)]


@dataclass(frozen=True)
class First:
    """Emits the delta of the first rows of each partition."""

    input: Ordered
    columns: tuple[Column, ...]
    offset: int
    limit: int | None
    numbered: bool

    @classmethod
    def of(cls, node: TopK, state: int, limit: KeyLimit) -> First:
        source = node.input
        tie_columns = ties(source, node.partition, node.order)
        ordered = Ordered(state, source.columns, source.key, node.partition, limit, node.order, tie_columns)
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
        changes: dict[tuple[bytes, int], int] = defaultdict(int)
        if self.limit is None:
            for row, weight in zip(net.rows.to_pylist(), net.weights.tolist(), strict=True):
                changes[row, 0] += weight
        for group, changed in touched.items():
            self._walk(group, changed, before, changes)
        return self._to_table({row: weight for row, weight in changes.items() if weight}), [write]

    def _walk(
        self, group: bytes, changed: dict[bytes, bytes | None], before: Before, changes: dict[tuple[bytes, int], int]
    ) -> None:
        """Adds the delta of one partition to `changes`: weights by row and row number (0: not numbered)."""
        start, end, sign = (0, self.offset, -1) if self.limit is None else (self.offset, self.offset + self.limit, 1)
        ahead = min(AHEAD, end + len(changed) + 1)
        seen = [0, 0]
        for entry in self.input.entries(group, changed, before, ahead) if end else ():
            for side, value, weight in ((0, entry.old, -sign), (1, entry.new, sign)):
                if value is None:
                    continue
                first, next_ = seen[side], seen[side] + weight_of(value)
                self._add(row_of(value), max(first, start), min(next_, end), weight, changes)
                seen[side] = next_
            if min(seen) >= end:
                return

    def _add(self, row: bytes, first: int, end: int, weight: int, changes: dict[tuple[bytes, int], int]) -> None:
        """Adds the copies of a row at the places [first, end) of its partition."""
        if self.numbered:
            for place in range(first, end):
                changes[row, place + 1] += weight
        elif end > first:
            changes[row, 0] += weight * (end - first)

    def _to_table(self, changes: dict[tuple[bytes, int], int]) -> pa.Table:
        table = pa.Table.from_batches([self.input._rows.decode([row for row, _ in changes])])
        columns = table.columns
        if self.numbered:
            columns.append(pa.array([number for _, number in changes], pa.int32()))
        weights = pa.array(np.fromiter(changes.values(), np.int64, len(changes)))
        return pa.Table.from_arrays([*columns, weights], schema=self.output)
