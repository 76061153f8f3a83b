"""Views as they are stored.

    V_new = V_old + delta

A view with a key holds one row under each key: the rows that the delta takes away are what was there
before, so the sink reads nothing. A view without one holds each distinct row with its weight.
"""

from __future__ import annotations

import struct
from dataclasses import dataclass
from functools import cached_property

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from tailrace import types
from tailrace.delta import WEIGHT, column, firsts, group_ids, sum_by
from tailrace.errors import Corrupt
from tailrace.maintain.stage import Before, sorted_writes
from tailrace.store.base import Write
from tailrace.store.clip import clip, digest
from tailrace.store.keys import KeyCodec
from tailrace.store.rows import RowCodec
from tailrace.types import Column

_WEIGHT = struct.Struct("<q")

REPORT = pa.schema([pa.field("state", pa.int64()), pa.field("rows", pa.int64())])
REPORT_DDL = "state bigint, rows bigint"


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

    def step(self, delta: pa.Table, before: Before) -> tuple[pa.Table | None, list[Write]]:
        rows = self._rows.encode(delta.select([column(i) for i in range(len(self.columns))]))
        picked, weights = net_rows(rows, delta.column(WEIGHT))
        rows = rows.take(pa.array(picked))
        if self.key is None:
            write = self._bag(rows, weights, before)
        else:
            keys = self._keys.encode([delta.column(column(p)) for p in self.key], delta.num_rows)
            write = self._keyed(clip(keys).take(pa.array(picked)), rows, weights)
        report = pa.table([[self.state], [len(write.keys)]], schema=REPORT)
        return report, [write]

    def _keyed(self, keys: pa.LargeBinaryArray, rows: pa.LargeBinaryArray, weights: np.ndarray) -> Write:
        if (np.abs(weights) != 1).any():
            raise Corrupt(where=f"view state {self.state}", reason="a keyed row has a weight other than one")
        order = pc.sort_indices(keys).to_numpy()
        listed, values, signs = (
            keys.take(pa.array(order)).to_pylist(),
            rows.take(pa.array(order)).to_pylist(),
            weights[order],
        )
        out: list[bytes] = []
        news: list[bytes | None] = []
        olds: list[bytes | None] = []
        for key, row, sign in zip(listed, values, signs.tolist(), strict=True):
            if not out or out[-1] != key:
                out.append(key)
                news.append(None)
                olds.append(None)
            side = news if sign > 0 else olds
            if side[-1] is not None:
                raise Corrupt(where=f"view state {self.state}", reason="two rows under one key")
            side[-1] = row
        return Write(self.state, out, news, olds)

    def _bag(self, rows: pa.LargeBinaryArray, weights: np.ndarray, before: Before) -> Write:
        listed = rows.to_pylist()
        keys = [digest(r) for r in listed]
        olds = before.get_many(self.state, keys)
        news: list[bytes | None] = []
        for key, row, change in zip(keys, listed, weights.tolist(), strict=True):
            old = olds.get(key)
            total = (_WEIGHT.unpack_from(old)[0] if old else 0) + change
            if total < 0:
                raise Corrupt(where=f"view state {self.state}", reason="a row was taken away more often than added")
            news.append(_WEIGHT.pack(total) + row if total else None)
        return sorted_writes(self.state, pa.array(keys, pa.large_binary()), news, [olds.get(k) for k in keys])
