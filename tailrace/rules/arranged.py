"""Arrangements of rows: a relation stored in shards, sorted by chosen columns.

    group (the chosen columns), row identity  →  weight, row

The identity is the relation's key if it has one, else a digest of the row. The rows of a group are adjacent, so a
join or an aggregate reads them with one seek.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

import numpy as np
import pyarrow as pa

from tailrace import types
from tailrace.codec.arrays import drop_prefix, join_cells, take_cells
from tailrace.codec.keys import KeyCodec, digest, prefix_range
from tailrace.codec.rows import RowCodec
from tailrace.codec.sorting import order
from tailrace.codec.weighted import ONE, WIDTH, weights_of
from tailrace.delta import WEIGHT, column
from tailrace.rules.before import Before, prefix_shards
from tailrace.rules.sink import Keyed, keyed_write, net_keyed, net_rows, positional_schema, weighted_write
from tailrace.store.base import Write
from tailrace.store.key_limit import KeyLimit
from tailrace.types import Column


@dataclass(frozen=True)
class Arranged:
    """One arrangement of a relation with these columns, sorted by the columns at positions `by`."""

    state: int
    columns: tuple[Column, ...]
    key: tuple[int, ...] | None
    by: tuple[int, ...]
    limit: KeyLimit

    @cached_property
    def schema(self) -> pa.Schema:
        return positional_schema(self.columns)

    @cached_property
    def _rows(self) -> RowCodec:
        return RowCodec(self.schema)

    @cached_property
    def _groups(self) -> KeyCodec:
        return KeyCodec([types.arrow(self.columns[p].type) for p in self.by])

    @cached_property
    def _rest(self) -> tuple[int, ...] | None:
        """Key columns that are not group columns; None if the relation has no key."""
        return None if self.key is None else tuple(p for p in self.key if p not in self.by)

    @property
    def is_unique(self) -> bool:
        """Whether a group has at most one row. Then a lookup is a get, not a scan."""
        return self._rest == ()

    def encode_groups(self, table: pa.Table) -> pa.LargeBinaryArray:
        """The encoded group of each row, as used in entry keys."""
        keys = self._groups.encode([table.column(column(p)) for p in self.by], table.num_rows)
        return prefix_shards(table, self.limit.shorten_part(keys))

    def encode_net(self, delta: pa.Table) -> EncodedRows:
        """Encodes the net delta: rows whose weights cancel out are dropped."""
        table, weights = delta.select(self.schema.names), delta.column(WEIGHT).to_numpy()
        whole = EncodedRows(table, self._rows.encode(table), weights, self.encode_groups(delta))
        if self.key is None:
            picked, weights = net_rows(whole.rows, weights)
        else:
            picked, weights, _ = net_keyed(self.entry_keys(whole), whole.rows, weights)
        rows, groups = take_cells(whole.rows, picked), take_cells(whole.groups, picked)
        return EncodedRows(table.take(pa.array(picked)), rows, weights, groups)

    def entry_keys(self, net: EncodedRows) -> pa.LargeBinaryArray:
        """The key of each row's entry: its group, then its identity."""
        if self._rest is None:
            identities = pa.array([digest(r) for r in net.rows.to_pylist()], pa.large_binary())
        else:
            codec = KeyCodec([types.arrow(self.columns[p].type) for p in self._rest])
            columns = [net.table.column(column(p)) for p in self._rest]
            identities = self.limit.shorten_part(codec.encode(columns, net.table.num_rows))
        return join_cells([net.groups, identities])

    def make_write(self, net: EncodedRows, keys: pa.LargeBinaryArray, before: Before) -> Write:
        """The write that adds a net delta to the arrangement; `keys` are its entry keys."""
        if self.key is None:
            return weighted_write(self.state, keys, net.rows, net.weights, before)
        at, fresh = order(keys)
        return keyed_write(self.state, keys, join_cells([ONE, net.rows]), Keyed(at, net.weights[at], fresh))

    def fetch(self, groups: list[bytes], before: Before) -> EncodedRows:
        """All rows of these groups, as of before the epoch."""
        if self.is_unique:
            value_by_group = before.get_many(self.state, groups)
            row_groups = pa.array(list(value_by_group.keys()), pa.large_binary())
            stored = list(value_by_group.values())
        else:
            runs = list(before.under(self.state, sorted(groups)))
            stored = [value for _, values in runs for value in values]
            sizes = np.array([len(values) for _, values in runs], np.int64)
            run_groups = pa.array([group for group, _ in runs], pa.large_binary())
            row_groups = take_cells(run_groups, np.repeat(np.arange(len(runs)), sizes))
        entries = pa.array(stored, pa.large_binary())
        weights, rows = weights_of(entries), drop_prefix(entries, WIDTH)
        table = pa.Table.from_batches([self._rows.decode(rows)])
        return EncodedRows(table, rows, weights, row_groups)

    def difference(self, new: EncodedRows, old: EncodedRows) -> EncodedRows:
        """The delta `new - old`, as multisets."""
        rows = pa.concat_arrays([new.rows, old.rows])
        weights = np.concatenate((new.weights, -old.weights))
        picked, changes = net_rows(rows, weights)
        rows = rows.take(pa.array(picked))
        table = pa.Table.from_batches([self._rows.decode(rows)])
        return EncodedRows(table, rows, changes, pa.concat_arrays([new.groups, old.groups]).take(pa.array(picked)))

    def has_survivor(self, group: bytes, gone: set[bytes], before: Before) -> bool:
        """Whether the group had an entry before the epoch whose key is not in `gone`. Reads up to the first one."""
        return any(key not in gone for key, _ in before.scan(self.state, *prefix_range(group), ahead=2))


@dataclass(frozen=True)
class EncodedRows:
    """Rows of a relation, with the encoded row, the weight and the encoded group of each."""

    table: pa.Table
    rows: pa.LargeBinaryArray
    weights: np.ndarray
    groups: pa.LargeBinaryArray

    def concat(self, other: EncodedRows) -> EncodedRows:
        return EncodedRows(
            pa.concat_tables([self.table, other.table]),
            pa.concat_arrays([self.rows, other.rows]),
            np.concatenate((self.weights, other.weights)),
            pa.concat_arrays([self.groups, other.groups]),
        )
