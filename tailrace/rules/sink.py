"""The sink: applies a view's delta to the stored view. Also the writes of keyed and of weighted rows.

    V_new = V_old + delta

A view with a key stores one row per key. Its old rows are the deleted rows of the delta, so the sink reads nothing.
A view without a key stores each distinct row with its weight.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from tailrace import types
from tailrace.codec.arrays import take_cells
from tailrace.codec.keys import KeyCodec, digest
from tailrace.codec.rows import RowCodec
from tailrace.codec.sorting import mark_run_starts, order
from tailrace.codec.weighted import add_weights
from tailrace.delta import WEIGHT, column, firsts, group_ids, sum_by
from tailrace.errors import Corrupt
from tailrace.rules.before import Before, prefix_shards
from tailrace.store.base import Write
from tailrace.store.key_limit import KeyLimit
from tailrace.types import Column

REPORT = pa.schema([pa.field("state", pa.int64()), pa.field("rows", pa.int64())])


def positional_schema(columns: tuple[Column, ...]) -> pa.Schema:
    return pa.schema([pa.field(column(i), types.arrow(c.type)) for i, c in enumerate(columns)])


def net_rows(rows: pa.LargeBinaryArray, weights: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Indices of distinct rows whose weights do not cancel, and those weights."""
    ids, distinct = group_ids(rows)
    totals = sum_by(ids, len(distinct), weights)
    kept = np.flatnonzero(totals)
    return firsts(ids, len(distinct))[kept], totals[kept]


class Keyed(NamedTuple):
    """Rows sorted by key: their indices, their weights, and for each whether it is the first row of its key."""

    at: np.ndarray
    weights: np.ndarray
    fresh: np.ndarray


def net_keyed(keys: pa.LargeBinaryArray, rows: pa.LargeBinaryArray, weights: np.ndarray) -> Keyed:
    """Like `net_rows`, for rows with a key: one sort by key suffices, because equal rows have equal keys.

    Optimised for the usual case: a key has one inserted row, one deleted row, or one of each.
    """
    at, fresh = order(keys)
    if fresh.all():
        kept = slice(None) if weights.all() else weights[at] != 0
        return Keyed(at[kept], weights[at[kept]], fresh[kept])
    first = np.flatnonzero(fresh)
    sizes = np.diff(np.append(first, len(at)))
    pairs = first[sizes == 2]
    leaders, seconds = at[pairs], at[pairs + 1]
    opposite = weights[leaders] + weights[seconds] == 0
    leaders, seconds = leaders[opposite], seconds[opposite]
    same = pc.equal(take_cells(rows, leaders), take_cells(rows, seconds)).to_numpy(zero_copy_only=False)
    totals = weights.copy()
    totals[leaders[same]] = totals[seconds[same]] = 0
    simple = sizes == 1
    simple[sizes == 2] = opposite
    rest = at[np.repeat(~simple, sizes)]
    if len(rest):
        picked, sums = net_rows(take_cells(rows, rest), weights[rest])
        totals[rest] = 0
        totals[rest[picked]] = sums
    totals = totals[at]
    kept = totals != 0
    return Keyed(at[kept], totals[kept], mark_run_starts(np.cumsum(fresh)[kept]))


@dataclass(frozen=True)
class Sink:
    """Stores a view's delta; emits one report row: the state and the number of written keys."""

    state: int
    columns: tuple[Column, ...]
    key: tuple[int, ...] | None
    limit: KeyLimit
    output: pa.Schema = REPORT

    @cached_property
    def _rows(self) -> RowCodec:
        return RowCodec(positional_schema(self.columns))

    @cached_property
    def _keys(self) -> KeyCodec:
        return KeyCodec([types.arrow(self.columns[p].type) for p in self.key or ()])

    def step(self, deltas: Sequence[pa.Table], before: Before) -> tuple[pa.Table | None, list[Write]]:
        (delta,) = deltas
        rows, weights = self._encode_rows(delta), delta.column(WEIGHT).to_numpy()
        if self.key is None:
            picked, weights = net_rows(rows, weights)
            write = self._write_bag(delta.take(pa.array(picked)), rows.take(pa.array(picked)), weights, before)
        else:
            keys = self._encode_keys(delta)
            write = keyed_write(self.state, keys, rows, net_keyed(keys, rows, weights))
        report = pa.table([[self.state], [len(write.keys)]], schema=REPORT)
        return report, [write]

    def sorted(self, delta: pa.Table) -> Sorted:
        """A keyed delta sorted by key, from which each of several views takes some rows (`task/fanout.py`)."""
        keys, rows, weights = self._encode_keys(delta), self._encode_rows(delta), delta.column(WEIGHT).to_numpy()
        at, fresh = order(keys)
        return Sorted(at, take_cells(keys, at), take_cells(rows, at), weights[at], np.cumsum(fresh))

    def _encode_rows(self, delta: pa.Table) -> pa.LargeBinaryArray:
        return self._rows.encode(delta.select([column(i) for i in range(len(self.columns))]))

    def _encode_keys(self, delta: pa.Table) -> pa.LargeBinaryArray:
        keys = self._keys.encode([delta.column(column(p)) for p in self.key or ()], delta.num_rows)
        return prefix_shards(delta, self.limit.shorten(keys))

    def _write_bag(self, kept: pa.Table, rows: pa.LargeBinaryArray, weights: np.ndarray, before: Before) -> Write:
        keys = prefix_shards(kept, pa.array([digest(r) for r in rows.to_pylist()], pa.large_binary()))
        return weighted_write(self.state, keys, rows, weights, before)


def keyed_write(state: int, keys: pa.LargeBinaryArray, rows: pa.LargeBinaryArray, net: Keyed) -> Write:
    """The write of net rows: each key's inserted row is its new value, its deleted row the old one.

    Reads nothing: the deleted rows of a delta are the old values.
    """
    at, weights, fresh = net
    if (np.abs(weights) != 1).any():
        raise Corrupt(where=f"state {state}", reason="a keyed row has a weight other than one")
    distinct = take_cells(keys, at if fresh.all() else at[fresh])
    new_and_old = [_row_of_each_key(state, net, len(distinct), side) for side in (weights > 0, weights < 0)]
    nothing = pa.nulls(len(distinct), pa.large_binary())
    return Write(state, distinct, *(nothing if at is None else take_cells(rows, at) for at in new_and_old))


def _row_of_each_key(state: int, net: Keyed, count: int, side: np.ndarray) -> np.ndarray | None:
    """The index of each key's row in `side`, a mask; -1 if it has none. None if no key has one."""
    if not side.any():
        return None
    if count == len(net.at):
        return net.at if side.all() else np.where(side, net.at, -1)
    key_numbers = (np.cumsum(net.fresh) - 1)[side]
    if not mark_run_starts(key_numbers).all():
        raise Corrupt(where=f"state {state}", reason="two rows under one key")
    indices = np.full(count, -1, np.int64)
    indices[key_numbers] = net.at[side]
    return indices


@dataclass(frozen=True)
class Sorted:
    """Rows sorted by key. `at` are their indices before sorting; `numbers` number the distinct keys."""

    at: np.ndarray
    keys: pa.LargeBinaryArray
    rows: pa.LargeBinaryArray
    weights: np.ndarray
    numbers: np.ndarray

    @cached_property
    def _is_net(self) -> bool:
        """Whether no rows cancel out: each key has one row, or one inserted and one deleted row that differ."""
        if not len(self.numbers) or self.numbers[-1] == len(self.numbers):
            return True
        second = np.flatnonzero(self.numbers[1:] == self.numbers[:-1]) + 1
        pairs = not (np.diff(second) == 1).any() and not (self.weights[second] + self.weights[second - 1]).any()
        return pairs and not pc.any(pc.equal(take_cells(self.rows, second), take_cells(self.rows, second - 1))).as_py()

    def write(self, state: int, mask: np.ndarray) -> Write:
        """The write for a state that takes the rows where `mask` is true."""
        at = np.flatnonzero(mask)
        if self._is_net:
            net = Keyed(at, self.weights[at], mark_run_starts(self.numbers[at]))
            return keyed_write(state, self.keys, self.rows, net)
        keys, rows = take_cells(self.keys, at), take_cells(self.rows, at)
        return keyed_write(state, keys, rows, net_keyed(keys, rows, self.weights[at]))


def weighted_write(
    state: int, keys: pa.LargeBinaryArray, rows: pa.LargeBinaryArray, changes: np.ndarray, before: Before
) -> Write:
    """The write of rows stored with their weights. An entry whose weight becomes zero is deleted."""
    indices = order(keys).indices
    keys = take_cells(keys, indices)
    olds = before.values(state, keys)
    return Write(state, keys, add_weights(state, olds, take_cells(rows, indices), changes[indices])[1], olds)
