"""MIN, MAX and COUNT(DISTINCT): the values of a column in each group, sorted, with weights.

    group, value  →  weight, value        MIN = first entry of the group, MAX = last, COUNT(DISTINCT) = entries

The accumulators remember the current first and last value. Only when that very value goes away is the
next one sought, which is a seek and not a scan of the group. The cost is the delta.
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
    """The arrangement of one column's values, and which of its ends somebody asks for."""

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

    def encoded(self, values: list[bytes]) -> list[bytes]:
        """Stored values in the order of their sort keys."""
        result: list[bytes] = self.order.encode([self.codec.decode(values).column(0)]).to_pylist()
        return result


@dataclass(frozen=True)
class ValueChanges:
    """What an epoch does to one column's values: entries that came and went, in order, each with its group's number."""

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

    def best(self, last: bool, exact: int) -> dict[int, tuple[bytes, bytes]]:
        """For each group the first (or last) of the values that came, with its sort key."""
        came = np.flatnonzero(self.came)
        if (pc.max(pc.binary_length(self.sort_keys)).as_py() or 0) > exact:  # clipped ones are not in order
            ranks = np.empty(len(self.sort_keys), dtype=np.int64)
            ranks[order(self.sort_keys).indices] = np.arange(len(ranks))
            came = came[np.lexsort((ranks[came], self.owners[came]))]
        owners = self.owners[came]
        differs = np.flatnonzero(np.diff(owners))
        picked = np.append(differs, len(came) - 1) if last else np.append(0, differs + 1)
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
    """Change the weights of the values in the delta."""
    there = np.flatnonzero(column.is_valid().to_numpy() & (weights != 0))
    column = column.combine_chunks() if isinstance(column, pa.ChunkedArray) else column
    column, owners, weights = normalise(column.take(pa.array(there))), ids[there], weights[there]
    sort_keys = values.order.encode([column], len(there))
    entries = join_cells([take_cells(groups, owners), values.limit.shorten_part(sort_keys)])
    first, changes = _summed(entries, weights)
    stored = values.codec.encode(pa.table({"x": column.take(pa.array(first))}))
    keys, owners = take_cells(entries, first), owners[first]
    olds = before.values(values.state, keys)
    was, news = add_weights(values.state, olds, stored, changes)
    came, gone = was == 0, was + changes == 0
    count = np.zeros(len(groups), dtype=np.int64)
    np.add.at(count, owners[came], 1)
    np.subtract.at(count, owners[gone], 1)
    moved = ValueChanges(count, owners, stored, take_cells(sort_keys, first), keys, came, gone)
    return moved, Write(values.state, keys, news, olds)


def _summed(entries: pa.LargeBinaryArray, weights: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Indices of distinct entries whose weights do not cancel, in order, and those weights."""
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
    moved: ValueChanges,
    groups: pa.LargeBinaryArray,
    last: bool,
    before: Before,
) -> list[bytes | None]:
    """The first (or last) value of each group after the epoch, given those before it."""
    touched = np.unique(moved.owners[moved.came | moved.gone]).tolist()
    known = [g for g in touched if olds[g] is not None]
    sort_keys = dict(zip(known, values.encoded([olds[g] or b"" for g in known]), strict=True))
    result, best, gone = list(olds), moved.best(last, values.limit.exact_part), moved.gone_keys
    names = dict(zip(touched, groups.take(pa.array(touched, pa.int64())).to_pylist(), strict=True))
    for group in touched:
        candidates = [best[group]] if group in best else []
        old, name = olds[group], names[group]
        if old is not None:
            if name + values.limit.shorten_part_one(sort_keys[group]) not in gone:
                candidates.append((sort_keys[group], old))
            else:
                candidates += _next(values, name, gone, last, before)
        chosen = (max if last else min)(candidates, default=None)
        result[group] = chosen[1] if chosen else None
    return result


def _next(values: Values, group: bytes, gone: set[bytes], last: bool, before: Before) -> Iterator[tuple[bytes, bytes]]:
    """The first surviving value from one end of a group.

    Long values are clipped and no longer in exact order among those that begin alike, so all of these are
    candidates.
    """
    low, high = prefix_range(group)
    scan = before.scan_back(values.state, low, high) if last else before.scan(values.state, low, high, ahead=4)
    beginning: bytes | None = None
    for key, value in scan:
        if key in gone:
            continue
        if beginning is not None and not key.startswith(beginning):
            return
        if len(key) - len(group) <= values.limit.exact_part:  # not clipped: the key says it all
            yield key[len(group) :], row_of(value)
            return
        yield values.encoded([row_of(value)])[0], row_of(value)
        beginning = beginning or key[: len(group) + values.limit.exact_part]
