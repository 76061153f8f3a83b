"""Aggregates whose answer is a function of stored accumulators: COUNT, SUM, AVG, variance, MIN, MAX, COUNT(DISTINCT).

    acc_new(g) = acc_old(g) + Σ contribution(row) · weight        for every group g in the delta
    Δ = -answer(acc_old) + answer(acc_new)

A group is deleted when its row count is zero, never because a sum is zero. Without GROUP BY the single group is never
deleted. The cost is the delta.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from tailrace import types
from tailrace.codec.arrays import normalise
from tailrace.codec.keys import KeyCodec
from tailrace.codec.rows import RowCodec
from tailrace.delta import WEIGHT, column, firsts, group_ids, sum_by
from tailrace.errors import Corrupt
from tailrace.rules import exact, extremes
from tailrace.rules.before import Before, prefix_shards
from tailrace.rules.extremes import Values
from tailrace.rules.moments import Moments, moments
from tailrace.store.base import Write
from tailrace.store.key_limit import KeyLimit
from tailrace.types import Column

_ENDS = ("lo", "hi")  # columns that are NULL in a group without values


@dataclass(frozen=True)
class Accumulate:
    """Adds a delta to the accumulators of its groups; emits the changed accumulators.

    Input: group columns `_0..`, contributions `s0..` (summed as they are), doubles `f0..` (summed exactly), doubles
    `m0..` (for variance), values `x0..` (for MIN, MAX, COUNT(DISTINCT)), and `_weight`.
    Output: group columns, `n` (row count), `s`, `f` and `m` as numbers, and for each `x` its minimum `lo`, maximum `hi`
    and distinct count `d`.
    """

    state: int
    groups: tuple[Column, ...]
    sums: tuple[str, ...]
    floats: int
    spreads: int
    values: tuple[Values, ...]
    limit: KeyLimit

    @cached_property
    def _keys(self) -> KeyCodec:
        return KeyCodec([types.arrow(c.type) for c in self.groups])

    @cached_property
    def _stored(self) -> pa.Schema:
        fields = [("n", pa.int64())]
        fields += [(f"s{i}", types.arrow(t)) for i, t in enumerate(self.sums)]
        fields += [(f"f{i}", pa.large_binary()) for i in range(self.floats)]
        fields += [(f"m{i}", pa.large_binary()) for i in range(self.spreads)]
        for i in range(len(self.values)):
            fields += [(f"lo{i}", pa.large_binary()), (f"hi{i}", pa.large_binary()), (f"d{i}", pa.int64())]
        return pa.schema(fields)

    @cached_property
    def _output_numbers(self) -> pa.Schema:
        fields = [("n", pa.int64())]
        fields += [(f"s{i}", types.arrow(t)) for i, t in enumerate(self.sums)]
        fields += [(f"f{i}", pa.float64()) for i in range(self.floats)]
        fields += [(f"m{i}", pa.float64()) for i in range(self.spreads)]
        for i, values in enumerate(self.values):
            value = types.arrow(values.type)
            fields += [(f"lo{i}", value), (f"hi{i}", value), (f"d{i}", pa.int64())]
        return pa.schema(fields)

    @cached_property
    def output(self) -> pa.Schema:
        groups = [pa.field(column(i), types.arrow(c.type)) for i, c in enumerate(self.groups)]
        return pa.schema([*groups, *self._output_numbers, pa.field(WEIGHT, pa.int64())])

    def step(self, deltas: Sequence[pa.Table], before: Before) -> tuple[pa.Table | None, list[Write]]:
        (delta,) = deltas
        group_columns = [normalise(delta.column(column(i))) for i in range(len(self.groups))]
        ids, groups = group_ids(
            prefix_shards(delta, self.limit.shorten_part(self._keys.encode(group_columns, delta.num_rows)))
        )
        codec = RowCodec(self._stored)
        zero = codec.encode(self._zero())[0].as_py()
        keys = groups.to_pylist()
        stored = before.get_many(self.state, keys)
        old = self._decode_checked(codec, [stored.get(k, zero) for k in keys])
        new, writes = self._advance(delta, ids, groups, old, before)
        exists = np.array([not self.groups or n > 0 for n in new.column("n").to_pylist()], dtype=bool)
        encoded = codec.encode(new).to_pylist()
        news = [row if live else None for row, live in zip(encoded, exists.tolist(), strict=True)]
        olds = [stored.get(k) for k in keys]
        changed = [i for i, (new_row, old_row) in enumerate(zip(news, olds, strict=True)) if new_row != old_row]
        writes.append(
            Write.of(self.state, [keys[i] for i in changed], [news[i] for i in changed], [olds[i] for i in changed])
        )
        existed = np.array([k in stored for k in keys], dtype=bool)
        group_values = (
            pa.table(
                [c.take(pa.array(firsts(ids, len(keys)))) for c in group_columns],
                names=[column(i) for i in range(len(self.groups))],
            )
            if self.groups
            else None
        )
        return self._difference(group_values, self._to_output(old), existed, self._to_output(new), exists), writes

    def _decode_checked(self, codec: RowCodec, stored: list[bytes]) -> pa.RecordBatch:
        """Decodes stored accumulators; raises `Corrupt` if they are invalid."""
        where = f"state {self.state}"
        try:
            batch = codec.decode(stored)
        except Corrupt as error:
            raise Corrupt(where=where, reason=error.reason) from error
        if any(c.null_count for f, c in zip(batch.schema, batch.columns, strict=True) if f.name[:2] not in _ENDS):
            raise Corrupt(where=where, reason="an accumulator is NULL")
        if pc.any(pc.less(batch.column("n"), 0)).as_py():
            raise Corrupt(where=where, reason="a group has a negative row count")
        return batch

    def _zero(self) -> pa.RecordBatch:
        """The accumulators of a group without rows, as one row."""
        row = {f.name: None if f.name.startswith(_ENDS) else b"" if f.name[0] in "fm" else 0 for f in self._stored}
        return pa.RecordBatch.from_pylist([row], schema=self._stored)

    def _advance(
        self,
        delta: pa.Table,
        ids: np.ndarray,
        groups: pa.LargeBinaryArray,
        old: pa.RecordBatch,
        before: Before,
    ) -> tuple[pa.RecordBatch, list[Write]]:
        """The accumulators after the epoch, and the writes of the value arrangements."""
        weights = delta.column(WEIGHT).to_numpy().astype(np.int64)
        count = len(groups)
        columns: dict[str, pa.Array] = {"n": pa.array(old.column("n").to_numpy() + sum_by(ids, count, weights))}
        for i in range(len(self.sums)):
            columns[f"s{i}"] = _add_sums(ids, count, old.column(f"s{i}"), delta.column(f"s{i}"))
        for i in range(self.floats):
            columns[f"f{i}"] = self._float_sums(ids, count, old.column(f"f{i}"), delta.column(f"f{i}"), weights)
        for i in range(self.spreads):
            columns[f"m{i}"] = self._moments(ids, count, old.column(f"m{i}"), delta.column(f"m{i}"), weights)
        writes = []
        for i, values in enumerate(self.values):
            changes, write = extremes.update_values(values, delta.column(f"x{i}"), weights, ids, groups, before)
            writes.append(write)
            columns[f"d{i}"] = pa.array(old.column(f"d{i}").to_numpy() + changes.count)
            for name, last in ((f"lo{i}", False), (f"hi{i}", True)):
                olds = old.column(name).to_pylist()
                ends = extremes.compute_ends(values, olds, changes, groups, last, before) if values.ends else olds
                columns[name] = pa.array(ends, pa.large_binary())
        return pa.RecordBatch.from_arrays([columns[f.name] for f in self._stored], schema=self._stored), writes

    @staticmethod
    def _float_sums(
        ids: np.ndarray, count: int, old: pa.Array, delta: pa.ChunkedArray, weights: np.ndarray
    ) -> pa.Array:
        valid = delta.is_valid().to_numpy()
        values = delta.drop_null().to_numpy()
        changes = exact.exact_sums(ids[valid], count, values, weights[valid])
        olds = old.to_pylist()
        for group, change in changes.items():
            olds[group] = exact.to_bytes(exact.add(exact.from_bytes(olds[group]), change))
        return pa.array(olds, pa.large_binary())

    @staticmethod
    def _moments(ids: np.ndarray, count: int, old: pa.Array, delta: pa.ChunkedArray, weights: np.ndarray) -> pa.Array:
        valid = delta.is_valid().to_numpy()
        changes = moments(ids[valid], count, delta.drop_null().to_numpy(), weights[valid])
        olds = old.to_pylist()
        for group, change in changes.items():
            olds[group] = (Moments.from_bytes(olds[group]) + change).to_bytes()
        return pa.array(olds, pa.large_binary())

    def _to_output(self, stored: pa.RecordBatch) -> pa.Table:
        """Converts stored accumulators to the numbers and values that the answer is computed from."""
        columns = [stored.column(f.name) for f in self._stored]
        for at, stored_field in enumerate(self._stored):
            if stored_field.name[0] == "f":
                doubles = [exact.to_double(exact.from_bytes(b)) for b in columns[at].to_pylist()]
                columns[at] = pa.array(doubles, pa.float64())
            elif stored_field.name[0] == "m":
                spreads = [Moments.from_bytes(b).spread() for b in columns[at].to_pylist()]
                columns[at] = pa.array(spreads, pa.float64())
            elif stored_field.name[:2] in _ENDS:
                columns[at] = _decode_values(self.values[int(stored_field.name[2:])], columns[at])
        return pa.Table.from_arrays(columns, schema=self._output_numbers)

    def _difference(
        self, group_values: pa.Table | None, old: pa.Table, existed: np.ndarray, new: pa.Table, exists: np.ndarray
    ) -> pa.Table:
        """-old for groups that existed, +new for groups that exist, nothing for groups that did not change."""
        codec = RowCodec(self._output_numbers)
        same = pc.equal(codec.encode(old), codec.encode(new)).to_numpy(zero_copy_only=False) & existed & exists
        parts = []
        for table, emitted, weight in ((old, existed & ~same, -1), (new, exists & ~same, 1)):
            whole = (
                table
                if group_values is None
                else pa.Table.from_arrays(
                    [*group_values.columns, *table.columns], names=[*group_values.column_names, *table.column_names]
                )
            )
            picked = whole.filter(pa.array(emitted))
            weights = pa.repeat(pa.scalar(weight, pa.int64()), picked.num_rows)
            parts.append(picked.append_column(WEIGHT, weights))
        return pa.concat_tables(parts)


def _add_sums(ids: np.ndarray, count: int, old: pa.Array, delta: pa.ChunkedArray) -> pa.Array:
    """old + Σ delta per group. Arrow does not widen decimals when it sums them; integers wrap around as in Spark."""
    if pa.types.is_integer(old.type):
        return pa.array(old.to_numpy() + sum_by(ids, count, delta.fill_null(0).to_numpy().astype(np.int64)))
    addends = pa.concat_arrays([old, *delta.cast(old.type).chunks])
    group_numbers = pa.array(np.concatenate((np.arange(count), ids)))
    sums = pa.table({"g": group_numbers, "s": addends}).group_by("g").aggregate([("s", "sum")]).sort_by("g")
    return sums.column("s_sum").cast(old.type).combine_chunks()


def _decode_values(values: Values, stored: pa.Array) -> pa.Array:
    null = values.codec.encode(pa.table({"x": pa.nulls(1, types.arrow(values.type))}))[0].as_py()
    return values.codec.decode([v if v is not None else null for v in stored.to_pylist()]).column(0)
