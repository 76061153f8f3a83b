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
from tailrace.store.base import Write
from tailrace.store.clip import clip, digest
from tailrace.store.keys import KeyCodec
from tailrace.store.rows import RowCodec
from tailrace.store.weighted import changed
from tailrace.types import Column

REPORT = pa.schema([pa.field("state", pa.int64()), pa.field("rows", pa.int64())])


def positional(columns: tuple[Column, ...]) -> pa.Schema:
    return pa.schema([pa.field(column(i), types.arrow(c.type)) for i, c in enumerate(columns)])


def net_rows(rows: pa.LargeBinaryArray, weights: pa.ChunkedArray) -> tuple[np.ndarray, np.ndarray]:
    """Indices of distinct rows whose weights do not cancel, and those weights."""
    ids, distinct = group_ids(rows)
    totals = sum_by(ids, len(distinct), weights.to_numpy().astype(np.int64))
    kept = np.flatnonzero(totals)
    return firsts(ids, len(distinct))[kept], totals[kept]


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
        picked, weights = net_rows(rows, delta.column(WEIGHT))
        rows = rows.take(pa.array(picked))
        if self.key is None:
            write = self._bag(delta.take(pa.array(picked)), rows, weights, before)
        else:
            keys = self._keys.encode([delta.column(column(p)) for p in self.key], delta.num_rows)
            write = self._keyed(located(delta, clip(keys)).take(pa.array(picked)), rows, weights)
        report = pa.table([[self.state], [len(write.keys)]], schema=REPORT)
        return report, [write]

    def _keyed(self, keys: pa.LargeBinaryArray, rows: pa.LargeBinaryArray, weights: np.ndarray) -> Write:
        if (np.abs(weights) != 1).any():
            raise Corrupt(where=f"view state {self.state}", reason="a keyed row has a weight other than one")
        return keyed_write(self.state, keys, rows, weights)

    def _bag(self, kept: pa.Table, rows: pa.LargeBinaryArray, weights: np.ndarray, before: Before) -> Write:
        listed = rows.to_pylist()
        keys = located(kept, pa.array([digest(r) for r in listed], pa.large_binary()))
        return weighted_write(self.state, keys.to_pylist(), listed, weights, before)


def keyed_write(state: int, keys: pa.LargeBinaryArray, rows: pa.LargeBinaryArray, weights: np.ndarray) -> Write:
    """Each key's row from now on (+1) and until now (-1). What a delta takes away was there: nothing is read."""
    come, go = pa.array(np.flatnonzero(weights > 0)), pa.array(np.flatnonzero(weights < 0))
    order = pc.sort_indices(keys.take(come))
    new_keys, new_rows = keys.take(come).take(order), rows.take(come).take(order)
    if not len(go):
        _require_unique(state, new_keys)
        return Write(state, new_keys, new_rows, pa.nulls(len(new_keys), pa.large_binary()))
    ids, distinct = group_ids(keys)
    if len(np.unique(ids[come])) != len(come) or len(np.unique(ids[go])) != len(go):
        raise Corrupt(where=f"state {state}", reason="two rows under one key")
    sides = []
    for picked in (come, go):
        at = np.full(len(distinct), -1, dtype=np.int64)
        at[ids[picked]] = picked
        sides.append(rows.take(pa.array(at, mask=at < 0)))
    order = pc.sort_indices(distinct)
    return Write(state, distinct.take(order), sides[0].take(order), sides[1].take(order))


def _require_unique(state: int, ordered: pa.LargeBinaryArray) -> None:
    if len(ordered) > 1 and pc.any(pc.equal(ordered.slice(1), ordered.slice(0, len(ordered) - 1))).as_py():
        raise Corrupt(where=f"state {state}", reason="two rows under one key")


def weighted_write(state: int, keys: list[bytes], rows: list[bytes], changes: np.ndarray, before: Before) -> Write:
    """Rows that are counted: the weight in front of the row, the entry gone when it is zero."""
    olds = before.get_many(state, keys)
    news: list[bytes | None] = []
    for key, row, change in zip(keys, rows, changes.tolist(), strict=True):
        news.append(changed(state, olds.get(key), row, change)[1])
    return Write.of(state, keys, news, [olds.get(k) for k in keys])
