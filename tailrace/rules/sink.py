"""Views as they are stored.

    V_new = V_old + delta

A view with a key holds one row under each key: the rows that the delta takes away are what was there
before, so the sink reads nothing. A view without one holds each distinct row with its weight.
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
    """Rows with a key, in the order of keys: where they stand, their weights, and which of them have a key of their
    own or are the first under theirs."""

    at: np.ndarray
    weights: np.ndarray
    fresh: np.ndarray


def net_keyed(keys: pa.LargeBinaryArray, rows: pa.LargeBinaryArray, weights: np.ndarray) -> Keyed:
    """The same of rows with a key: only rows under one key can be equal.

    Nearly always a key has one row that comes, one that goes, or one of each.
    """
    at, fresh = order(keys)
    if fresh.all():
        kept = slice(None) if weights.all() else weights[at] != 0
        return Keyed(at[kept], weights[at[kept]], fresh[kept])
    first = np.flatnonzero(fresh)
    sizes = np.diff(np.append(first, len(at)))
    pair = first[sizes == 2]
    one, other = at[pair], at[pair + 1]
    opposite = weights[one] + weights[other] == 0
    one, other = one[opposite], other[opposite]
    same = pc.equal(take_cells(rows, one), take_cells(rows, other)).to_numpy(zero_copy_only=False)
    totals = weights.copy()
    totals[one[same]] = totals[other[same]] = 0
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
    """Stores a view's delta; gives one line of report."""

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
        rows, weights = self._encoded(delta), delta.column(WEIGHT).to_numpy()
        if self.key is None:
            picked, weights = net_rows(rows, weights)
            write = self._bag(delta.take(pa.array(picked)), rows.take(pa.array(picked)), weights, before)
        else:
            keys = self._located(delta)
            write = keyed_write(self.state, keys, rows, net_keyed(keys, rows, weights))
        report = pa.table([[self.state], [len(write.keys)]], schema=REPORT)
        return report, [write]

    def sorted(self, delta: pa.Table) -> Sorted:
        """The delta of a view with a key in the order of keys, for views that take some of its rows each."""
        keys, rows, weights = self._located(delta), self._encoded(delta), delta.column(WEIGHT).to_numpy()
        at, fresh = order(keys)
        return Sorted(at, take_cells(keys, at), take_cells(rows, at), weights[at], np.cumsum(fresh))

    def _encoded(self, delta: pa.Table) -> pa.LargeBinaryArray:
        return self._rows.encode(delta.select([column(i) for i in range(len(self.columns))]))

    def _located(self, delta: pa.Table) -> pa.LargeBinaryArray:
        keys = self._keys.encode([delta.column(column(p)) for p in self.key or ()], delta.num_rows)
        return prefix_shards(delta, self.limit.shorten(keys))

    def _bag(self, kept: pa.Table, rows: pa.LargeBinaryArray, weights: np.ndarray, before: Before) -> Write:
        keys = prefix_shards(kept, pa.array([digest(r) for r in rows.to_pylist()], pa.large_binary()))
        return weighted_write(self.state, keys, rows, weights, before)


def keyed_write(state: int, keys: pa.LargeBinaryArray, rows: pa.LargeBinaryArray, net: Keyed) -> Write:
    """Each key's row from now on (+1) and until now (-1), given what is net.

    What a delta takes away was there: nothing is read.
    """
    at, weights, fresh = net
    if (np.abs(weights) != 1).any():
        raise Corrupt(where=f"state {state}", reason="a keyed row has a weight other than one")
    names = take_cells(keys, at if fresh.all() else at[fresh])
    sides = [_under(state, net, len(names), side) for side in (weights > 0, weights < 0)]
    nothing = pa.nulls(len(names), pa.large_binary())
    return Write(state, names, *(nothing if side is None else take_cells(rows, side) for side in sides))


def _under(state: int, net: Keyed, count: int, side: np.ndarray) -> np.ndarray | None:
    """For each key where its row of this side stands, -1 for none; None if no key has one."""
    if not side.any():
        return None
    if count == len(net.at):
        return net.at if side.all() else np.where(side, net.at, -1)
    places = (np.cumsum(net.fresh) - 1)[side]
    if not mark_run_starts(places).all():
        raise Corrupt(where=f"state {state}", reason="two rows under one key")
    found = np.full(count, -1, np.int64)
    found[places] = net.at[side]
    return found


@dataclass(frozen=True)
class Sorted:
    """Rows with a key in its order: where each stood before, its key, itself, its weight, the number of its key."""

    at: np.ndarray
    keys: pa.LargeBinaryArray
    rows: pa.LargeBinaryArray
    weights: np.ndarray
    numbers: np.ndarray

    @cached_property
    def _distinct(self) -> bool:
        """Whether no key has two rows, or each that has two has one that comes and another that goes."""
        if not len(self.numbers) or self.numbers[-1] == len(self.numbers):
            return True
        second = np.flatnonzero(self.numbers[1:] == self.numbers[:-1]) + 1
        pairs = not (np.diff(second) == 1).any() and not (self.weights[second] + self.weights[second - 1]).any()
        return pairs and not pc.any(pc.equal(take_cells(self.rows, second), take_cells(self.rows, second - 1))).as_py()

    def write(self, state: int, mask: np.ndarray) -> Write:
        """What a state becomes that takes the rows of a mask."""
        at = np.flatnonzero(mask)
        if self._distinct:
            net = Keyed(at, self.weights[at], mark_run_starts(self.numbers[at]))
            return keyed_write(state, self.keys, self.rows, net)
        keys, rows = take_cells(self.keys, at), take_cells(self.rows, at)
        return keyed_write(state, keys, rows, net_keyed(keys, rows, self.weights[at]))


def weighted_write(
    state: int, keys: pa.LargeBinaryArray, rows: pa.LargeBinaryArray, changes: np.ndarray, before: Before
) -> Write:
    """Rows that are counted: the weight in front of the row, the entry gone when it is zero."""
    indices = order(keys).indices
    keys = take_cells(keys, indices)
    olds = before.values(state, keys)
    return Write(state, keys, add_weights(state, olds, take_cells(rows, indices), changes[indices])[1], olds)
