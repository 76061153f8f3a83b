"""Views as they are stored.

    V_new = V_old + delta

A view with a key holds one row under each key: the rows that the delta takes away are what was there
before, so the sink reads nothing. A view without one holds each distinct row with its weight.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from tailrace import types
from tailrace.delta import WEIGHT, column, firsts, group_ids, sum_by
from tailrace.errors import Corrupt
from tailrace.maintain.before import Before, located
from tailrace.store.arrays import taken
from tailrace.store.base import Write
from tailrace.store.clip import clip, digest
from tailrace.store.keys import KeyCodec
from tailrace.store.order import differing, order
from tailrace.store.rows import RowCodec
from tailrace.store.weighted import changed
from tailrace.types import Column

REPORT = pa.schema([pa.field("state", pa.int64()), pa.field("rows", pa.int64())])


def positional(columns: tuple[Column, ...]) -> pa.Schema:
    return pa.schema([pa.field(column(i), types.arrow(c.type)) for i, c in enumerate(columns)])


def net_rows(rows: pa.LargeBinaryArray, weights: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Indices of distinct rows whose weights do not cancel, and those weights."""
    ids, distinct = group_ids(rows)
    totals = sum_by(ids, len(distinct), weights)
    kept = np.flatnonzero(totals)
    return firsts(ids, len(distinct))[kept], totals[kept]


def net_keyed(
    keys: pa.LargeBinaryArray, rows: pa.LargeBinaryArray, weights: np.ndarray
) -> tuple[np.ndarray, np.ndarray]:
    """The same of rows with a key, in the order of keys: only rows under one key can be equal.

    Nearly always a key has one row that comes, one that goes, or one of each.
    """
    at, fresh = order(keys)
    if fresh.all():
        at = at[weights[at] != 0]
        return at, weights[at]
    first = np.flatnonzero(fresh)
    sizes = np.diff(np.append(first, len(at)))
    pair = first[sizes == 2]
    one, other = at[pair], at[pair + 1]
    opposite = weights[one] + weights[other] == 0
    one, other = one[opposite], other[opposite]
    same = pc.equal(taken(rows, one), taken(rows, other)).to_numpy(zero_copy_only=False)
    totals = weights.copy()
    totals[one[same]] = totals[other[same]] = 0
    simple = sizes == 1
    simple[sizes == 2] = opposite
    rest = at[np.repeat(~simple, sizes)]
    picked, sums = net_rows(taken(rows, rest), weights[rest])
    totals[rest] = 0
    totals[rest[picked]] = sums
    at = at[totals[at] != 0]
    return at, totals[at]


@dataclass(frozen=True)
class Sink:
    """Stores a view's delta; gives one line of report."""

    state: int
    columns: tuple[Column, ...]
    key: tuple[int, ...] | None
    output: pa.Schema = REPORT

    @cached_property
    def _rows(self) -> RowCodec:
        return RowCodec(positional(self.columns))

    @cached_property
    def _keys(self) -> KeyCodec:
        return KeyCodec([types.arrow(self.columns[p].type) for p in self.key or ()])

    def step(self, deltas: Sequence[pa.Table], before: Before) -> tuple[pa.Table | None, list[Write]]:
        (delta,) = deltas
        rows = self._rows.encode(delta.select([column(i) for i in range(len(self.columns))]))
        weights = delta.column(WEIGHT).to_numpy()
        if self.key is None:
            picked, weights = net_rows(rows, weights)
            write = self._bag(delta.take(pa.array(picked)), rows.take(pa.array(picked)), weights, before)
        else:
            keys = located(delta, clip(self._keys.encode([delta.column(column(p)) for p in self.key], delta.num_rows)))
            picked, weights = net_keyed(keys, rows, weights)
            if (np.abs(weights) != 1).any():
                raise Corrupt(where=f"view state {self.state}", reason="a keyed row has a weight other than one")
            write = keyed_write(self.state, keys, rows, picked, weights)
        report = pa.table([[self.state], [len(write.keys)]], schema=REPORT)
        return report, [write]

    def _bag(self, kept: pa.Table, rows: pa.LargeBinaryArray, weights: np.ndarray, before: Before) -> Write:
        keys = located(kept, pa.array([digest(r) for r in rows.to_pylist()], pa.large_binary()))
        return weighted_write(self.state, keys, rows, weights, before)


def keyed_write(
    state: int, keys: pa.LargeBinaryArray, rows: pa.LargeBinaryArray, picked: np.ndarray, weights: np.ndarray
) -> Write:
    """Each key's row from now on (+1) and until now (-1), given what is net, in the order of keys.

    What a delta takes away was there: nothing is read.
    """
    keys = taken(keys, picked)
    fresh = differing(keys)
    count, groups = int(fresh.sum()), np.cumsum(fresh) - 1
    sides = []
    for side in (weights > 0, weights < 0):
        at = np.full(count, -1, dtype=np.int64)
        at[groups[side]] = picked[side]
        if (at >= 0).sum() != side.sum():
            raise Corrupt(where=f"state {state}", reason="two rows under one key")
        if side.all():
            sides.append(taken(rows, at))
        else:
            sides.append(rows.take(pa.array(at, mask=at < 0)) if side.any() else pa.nulls(count, pa.large_binary()))
    return Write(state, keys if count == len(keys) else keys.filter(pa.array(fresh)), *sides)


def weighted_write(
    state: int, keys: pa.LargeBinaryArray, rows: pa.LargeBinaryArray, changes: np.ndarray, before: Before
) -> Write:
    """Rows that are counted: the weight in front of the row, the entry gone when it is zero."""
    indices = order(keys).indices
    keys = taken(keys, indices)
    olds = before.values(state, keys)
    return Write(state, keys, changed(state, olds, taken(rows, indices), changes[indices])[1], olds)
