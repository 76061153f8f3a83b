"""Temporal filter: the rows that are valid at the time of the epoch. A row is valid while from <= time < until.

    Δ = ΔA at t1  -  crossed at t0  +  crossed at t1          each as far as valid at its time; epoch (t0, t1]

    crossed      =  rows of A before the epoch that have a border in (t0, t1]
    state at t   =  next border of the row after t, row identity  →  weight, row      rows with such a border only

Each row comes with the time at which it counts (`_at`): changed rows at t1, each crossed row once at t0, negated, and
once at t1. Then both the output (rows valid at their time) and the state (rows by their next border) are linear. The
state is sorted by border, so the crossed rows are one range of it, and the first key is when the next row is due.
"""

from __future__ import annotations

import struct
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from tailrace.codec.arrays import drop_prefix
from tailrace.codec.rows import RowCodec
from tailrace.codec.weighted import WIDTH, weights_of
from tailrace.delta import WEIGHT, column
from tailrace.plan.nodes import TemporalFilter
from tailrace.plan.temporal import ALWAYS
from tailrace.rules.arranged import Arranged
from tailrace.rules.before import Before
from tailrace.rules.sink import net_rows, positional_schema
from tailrace.store.base import ShardSnapshot, Write
from tailrace.store.key_limit import KeyLimit
from tailrace.types import Column

AT = "_at"  # the time at which a row counts
_BORDER = struct.Struct(">BQ")  # the marker of a value, and a BIGINT with its sign bit flipped
_SIGN = 1 << 63
_SHARD = struct.Struct(">H")
AHEAD = 20_000  # entries read at a time

Times = npt.NDArray[np.int64]


@dataclass(frozen=True)
class Crossed:
    """Emits the delta of the valid rows, and keeps the rows whose validity will still change."""

    kept: Arranged
    columns: tuple[Column, ...]

    @classmethod
    def of(cls, node: TemporalFilter, state: int, limit: KeyLimit) -> Crossed:
        stored = (*node.input.columns, Column("border", "bigint"))
        return cls(Arranged(state, stored, node.input.key, (len(stored) - 1,), limit), node.columns)

    @cached_property
    def output(self) -> pa.Schema:
        return positional_schema(self.columns).append(pa.field(WEIGHT, pa.int64()))

    @cached_property
    def _shown(self) -> RowCodec:
        return RowCodec(positional_schema(self.columns))

    @cached_property
    def timed(self) -> pa.Schema:
        """The columns of the input: those of the rows with their borders, the time, and the weight."""
        rows = positional_schema(self.kept.columns[:-1])
        return rows.append(pa.field(AT, pa.int64())).append(pa.field(WEIGHT, pa.int64()))

    def step(self, deltas: Sequence[pa.Table], before: Before) -> tuple[pa.Table | None, list[Write]]:
        (delta,) = deltas
        width = len(self.columns)
        start, end, at = (delta.column(name).to_numpy() for name in (column(width), column(width + 1), AT))
        valid = (start <= at) & (at < end)
        border = _next_border(start, end, at)
        waiting = pa.array(border < ALWAYS)
        moved = delta.append_column(column(width + 2), pa.array(border)).filter(waiting)
        net = self.kept.encode_net(moved)
        write = self.kept.make_write(net, self.kept.entry_keys(net), before)
        out = delta.filter(pa.array(valid)).select(self.output.names)
        return (self._net(out) if at.min(initial=ALWAYS) < at.max(initial=-ALWAYS) else out), [write]

    def _net(self, rows: pa.Table) -> pa.Table:
        """Without rows that cancel out: a row may become valid and be deleted in the same epoch."""
        encoded = self._shown.encode(rows.select(self.output.names[:-1]))
        picked, weights = net_rows(encoded, rows.column(WEIGHT).to_numpy())
        kept = rows.take(pa.array(picked))
        return kept.set_column(len(self.columns), WEIGHT, pa.array(weights))

    def crossed(self, before: Before, shard: int, after: int, upto: int) -> pa.Table | None:
        """The rows of a shard with a border in (after, upto]: negated at `after`, and again at `upto`."""
        number = _SHARD.pack(shard)
        low, high = number + encode_border(after + 1), number + encode_border(upto + 1)
        values = [value for _, value in before.scan(self.kept.state, low, high, AHEAD)]
        if not values:
            return None
        entries = pa.array(values, pa.large_binary())
        weights = weights_of(entries)
        rows = self.kept._rows.decode(drop_prefix(entries, WIDTH)).columns[:-1]
        parts = [
            [*rows, pa.repeat(pa.scalar(time, pa.int64()), len(values)), pa.array(sign * weights)]
            for time, sign in ((after, -1), (upto, 1))
        ]
        return pa.concat_tables([pa.Table.from_arrays(part, schema=self.timed) for part in parts])


def _next_border(start: Times, end: Times, at: Times) -> Times:
    """The first border after `at` at which the row's validity changes; ALWAYS if there is none."""
    never = (at >= end) | (start >= end)
    return np.where(never, ALWAYS, np.where(at < start, start, end))


def encode_border(time: int) -> bytes:
    """The beginning of the keys with this border, as `KeyCodec` encodes a BIGINT."""
    return _BORDER.pack(1, (time + _SIGN) & (2 * _SIGN - 1))


def first_border(snapshot: ShardSnapshot, state: int) -> int | None:
    """The earliest border in a shard."""
    for run in snapshot.scan(state, size=1):
        for key, _ in run:
            return int(_BORDER.unpack_from(key)[1]) - _SIGN
    return None


def count_crossed(snapshot: ShardSnapshot, state: int, upto: int) -> int:
    """The number of entries in a shard with a border up to a time."""
    return sum(len(run) for run in snapshot.scan(state, b"", encode_border(upto + 1)))
