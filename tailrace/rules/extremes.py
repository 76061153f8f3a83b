"""MIN, MAX and COUNT(DISTINCT): the values of a column in each group, sorted, with weights.

    group, value  →  weight, value        MIN = first entry of the group, MAX = last, COUNT(DISTINCT) = entries

The accumulators hold the current first and last value of each group. Only when that value is deleted is the next one
looked up: a seek, not a scan of the group. The cost is the delta.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from tailrace import types
from tailrace.codec.arrays import join_cells, normalise, take_cells
from tailrace.codec.keys import KeyCodec, prefix_range
from tailrace.codec.rows import RowCodec
from tailrace.codec.sorting import order
from tailrace.codec.weighted import add_weights, row_of
from tailrace.delta import Indices
from tailrace.rules.before import Before
from tailrace.store.base import Write
from tailrace.store.key_limit import KeyLimit


@dataclass(frozen=True)
class Values:
    """The arrangement of one column's values. `ends`: whether a call needs MIN or MAX."""

    state: int
    type: str
    ends: bool
    limit: KeyLimit

    @cached_property
    def codec(self) -> RowCodec:
        return RowCodec(pa.schema([pa.field("x", types.arrow(self.type))]))

    @cached_property
    def order(self) -> KeyCodec:
        return KeyCodec([types.arrow(self.type)])

    def sort_keys(self, values: list[bytes]) -> list[bytes]:
        """The unshortened sort key of each stored value."""
        result: list[bytes] = self.order.encode([self.codec.decode(values).column(0)]).to_pylist()
        return result


@dataclass(frozen=True)
class ValueChanges:
    """The entries of one arrangement whose weight changed, sorted by key.

    `count` is the change of the distinct count per group. The others have an element per entry: `owners` is the number
    of its group, `came` and `gone` say whether the entry is new or deleted.
    """

    count: np.ndarray
    owners: np.ndarray
    values: pa.LargeBinaryArray
    sort_keys: pa.LargeBinaryArray
    keys: pa.LargeBinaryArray
    came: np.ndarray
    gone: np.ndarray

    @cached_property
    def gone_keys(self) -> set[bytes]:
        return set(self.keys.filter(pa.array(self.gone)).to_pylist())

    def new_extremes(self, last: bool, exact: int) -> dict[int, tuple[bytes, bytes]]:
        """For each group the smallest (`last`: largest) new value, after its sort key."""
        came = np.flatnonzero(self.came)
        if (pc.max(pc.binary_length(self.sort_keys)).as_py() or 0) > exact:  # shortened keys are not in order
            ranks = np.empty(len(self.sort_keys), dtype=np.int64)
            ranks[order(self.sort_keys).indices] = np.arange(len(ranks))
            came = came[np.lexsort((ranks[came], self.owners[came]))]
        owners = self.owners[came]
        group_ends = np.flatnonzero(np.diff(owners))
        picked = np.append(group_ends, len(came) - 1) if last else np.append(0, group_ends + 1)
        at = came[picked] if len(came) else came
        columns = (c.take(pa.array(at)).to_pylist() for c in (self.sort_keys, self.values))
        return dict(zip(self.owners[at].tolist(), zip(*columns, strict=True), strict=True))


def update_values(
    values: Values,
    column: pa.ChunkedArray,
    weights: np.ndarray,
    ids: Indices,
    groups: pa.LargeBinaryArray,
    before: Before,
) -> tuple[ValueChanges, Write]:
    """Adds the delta's weights to the values of its groups."""
    present = np.flatnonzero(column.is_valid().to_numpy() & (weights != 0))
    column = column.combine_chunks() if isinstance(column, pa.ChunkedArray) else column
    column, owners, weights = normalise(column.take(pa.array(present))), ids[present], weights[present]
    sort_keys = values.order.encode([column], len(present))
    entries = join_cells([take_cells(groups, owners), values.limit.shorten_part(sort_keys)])
    first, changes = _sum_weights(entries, weights)
    stored = values.codec.encode(pa.table({"x": column.take(pa.array(first))}))
    keys, owners = take_cells(entries, first), owners[first]
    olds = before.values(values.state, keys)
    old_weights, news = add_weights(values.state, olds, stored, changes)
    came, gone = old_weights == 0, old_weights + changes == 0
    count = np.zeros(len(groups), dtype=np.int64)
    np.add.at(count, owners[came], 1)
    np.subtract.at(count, owners[gone], 1)
    value_changes = ValueChanges(count, owners, stored, take_cells(sort_keys, first), keys, came, gone)
    return value_changes, Write(values.state, keys, news, olds)


def _sum_weights(entries: pa.LargeBinaryArray, weights: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Indices of the distinct entries whose weights do not cancel out, in key order, and the sums of their weights."""
    at, fresh = order(entries)
    if not len(at):
        return at, weights
    starts = np.flatnonzero(fresh)
    changes = np.add.reduceat(weights[at], starts)
    kept = np.flatnonzero(changes)
    return at[starts[kept]], changes[kept]


def compute_ends(
    values: Values,
    olds: list[bytes | None],
    changes: ValueChanges,
    groups: pa.LargeBinaryArray,
    last: bool,
    before: Before,
) -> list[bytes | None]:
    """The first (`last`: last) value of each group after the epoch; `olds` are those before it."""
    touched = np.unique(changes.owners[changes.came | changes.gone]).tolist()
    known = [g for g in touched if olds[g] is not None]
    old_sort_keys = dict(zip(known, values.sort_keys([olds[g] or b"" for g in known]), strict=True))
    result, gone = list(olds), changes.gone_keys
    new_extremes = changes.new_extremes(last, values.limit.exact_part)
    prefixes = dict(zip(touched, groups.take(pa.array(touched, pa.int64())).to_pylist(), strict=True))
    for group in touched:
        candidates = [new_extremes[group]] if group in new_extremes else []
        old, prefix = olds[group], prefixes[group]
        if old is not None:
            if prefix + values.limit.shorten_part_one(old_sort_keys[group]) not in gone:
                candidates.append((old_sort_keys[group], old))
            else:
                candidates += _survivors(values, prefix, gone, last, before)
        chosen = (max if last else min)(candidates, default=None)
        result[group] = chosen[1] if chosen else None
    return result


def _survivors(
    values: Values, group: bytes, gone: set[bytes], last: bool, before: Before
) -> Iterator[tuple[bytes, bytes]]:
    """Candidates for the first (`last`: last) surviving value of a group, each after its sort key.

    Usually one. Keys of long values are shortened, and values with the same beginning are then not in order: all of
    them are candidates.
    """
    low, high = prefix_range(group)
    scan = before.scan_back(values.state, low, high) if last else before.scan(values.state, low, high, ahead=4)
    run_prefix: bytes | None = None
    for key, value in scan:
        if key in gone:
            continue
        if run_prefix is not None and not key.startswith(run_prefix):
            return
        if len(key) - len(group) <= values.limit.exact_part:  # not shortened: the key is the sort key
            yield key[len(group) :], row_of(value)
            return
        yield values.sort_keys([row_of(value)])[0], row_of(value)
        run_prefix = run_prefix or key[: len(group) + values.limit.exact_part]
