"""Arrangements of rows: a relation in a shard, sorted by chosen columns.

    group (the chosen columns), row identity  →  weight, row

The identity is the relation's own key where it has one, else a digest of the row. All rows of a group
stand together, so that a join or an aggregate reads them with one seek.
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
    """One arrangement of a relation with these columns, sorted by the columns at `by`."""

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
        """Key columns that the group does not say already; None without a key."""
        return None if self.key is None else tuple(p for p in self.key if p not in self.by)

    @property
    def is_unique(self) -> bool:
        """Whether a group has one row at most, so that a lookup is a get and not a scan."""
        return self._rest == ()

    def encode_groups(self, table: pa.Table) -> pa.LargeBinaryArray:
        """The group of each row, as the arrangement sorts it."""
        keys = self._groups.encode([table.column(column(p)) for p in self.by], table.num_rows)
        return prefix_shards(table, self.limit.shorten_part(keys))

    def encode_net(self, delta: pa.Table) -> EncodedRows:
        """The delta with what cancels out left away: all that the arrangement has to do with."""
        table, weights = delta.select(self.schema.names), delta.column(WEIGHT).to_numpy()
        whole = EncodedRows(table, self._rows.encode(table), weights, self.encode_groups(delta))
        if self.key is None:
            picked, weights = net_rows(whole.rows, weights)
        else:
            picked, weights, _ = net_keyed(self.entry_keys(whole), whole.rows, weights)
        rows, groups = take_cells(whole.rows, picked), take_cells(whole.groups, picked)
        return EncodedRows(table.take(pa.array(picked)), rows, weights, groups)

    def entry_keys(self, net: EncodedRows) -> pa.LargeBinaryArray:
        """Where each row stands: its group, then its identity."""
        if self._rest is None:
            identities = pa.array([digest(r) for r in net.rows.to_pylist()], pa.large_binary())
        else:
            codec = KeyCodec([types.arrow(self.columns[p].type) for p in self._rest])
            columns = [net.table.column(column(p)) for p in self._rest]
            identities = self.limit.shorten_part(codec.encode(columns, net.table.num_rows))
        return join_cells([net.groups, identities])

    def make_write(self, net: EncodedRows, keys: pa.LargeBinaryArray, before: Before) -> Write:
        """What the entries of the delta's rows become."""
        if self.key is None:
            return weighted_write(self.state, keys, net.rows, net.weights, before)
        at, fresh = order(keys)
        return keyed_write(self.state, keys, join_cells([ONE, net.rows]), Keyed(at, net.weights[at], fresh))

    def fetch(self, groups: list[bytes], before: Before) -> EncodedRows:
        """All rows of these groups as they were before the epoch."""
        if self.is_unique:
            got = before.get_many(self.state, groups)
            owners, found = pa.array(list(got.keys()), pa.large_binary()), list(got.values())
        else:
            there = list(before.under(self.state, sorted(groups)))
            found = [value for _, values in there for value in values]
            counts = np.array([len(values) for _, values in there], np.int64)
            names = pa.array([group for group, _ in there], pa.large_binary())
            owners = take_cells(names, np.repeat(np.arange(len(there)), counts))
        entries = pa.array(found, pa.large_binary())
        weights, rows = weights_of(entries), drop_prefix(entries, WIDTH)
        table = pa.Table.from_batches([self._rows.decode(rows)])
        return EncodedRows(table, rows, weights, owners)

    def difference(self, new: EncodedRows, old: EncodedRows) -> EncodedRows:
        """The rows of one that are not in the other, as multisets: those that came, and less those that went."""
        rows = pa.concat_arrays([new.rows, old.rows])
        weights = np.concatenate((new.weights, -old.weights))
        picked, changes = net_rows(rows, weights)
        rows = rows.take(pa.array(picked))
        table = pa.Table.from_batches([self._rows.decode(rows)])
        return EncodedRows(table, rows, changes, pa.concat_arrays([new.groups, old.groups]).take(pa.array(picked)))

    def has_survivor(self, group: bytes, gone: set[bytes], before: Before) -> bool:
        """Whether the group had a row before the epoch whose key is not among `gone`: stops at the first."""
        return any(key not in gone for key, _ in before.scan(self.state, *prefix_range(group), ahead=2))


@dataclass(frozen=True)
class EncodedRows:
    """Rows of a relation with their encoded rows, weights and groups."""

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
