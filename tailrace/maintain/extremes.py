"""MIN, MAX and COUNT(DISTINCT): the values of a column in each group, sorted, with weights.

    group, value  →  weight, value        MIN = first entry of the group, MAX = last, COUNT(DISTINCT) = entries

The accumulators remember the current first and last value. Only when that very value goes away is the
next one sought, which is a seek and not a scan of the group. The cost is the delta.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from functools import cached_property

import numpy as np
import pyarrow as pa

from tailrace import types
from tailrace.delta import Indices, firsts, group_ids, sum_by
from tailrace.maintain.arranged import join_bytes
from tailrace.maintain.before import Before
from tailrace.store.base import Write
from tailrace.store.clip import DIGEST, PART, clip, clip_one
from tailrace.store.keys import KeyCodec, normalise
from tailrace.store.rows import RowCodec
from tailrace.store.shards import prefix_range
from tailrace.store.weighted import changed, row_of


@dataclass(frozen=True)
class Values:
    """The arrangement of one column's values, and which of its ends somebody asks for."""

    state: int
    type: str
    ends: bool

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


@dataclass
class Moved:
    """What an epoch does to one column's values: entries that came and went, by group number."""

    count: np.ndarray
    came: dict[int, list[tuple[bytes, bytes]]] = field(default_factory=dict)
    gone: dict[int, set[bytes]] = field(default_factory=dict)


def move(
    values: Values,
    column: pa.ChunkedArray,
    weights: np.ndarray,
    ids: Indices,
    groups: pa.LargeBinaryArray,
    before: Before,
) -> tuple[Moved, Write]:
    """Change the weights of the values in the delta."""
    there = np.flatnonzero(column.is_valid().to_numpy() & (weights != 0))
    column = column.combine_chunks() if isinstance(column, pa.ChunkedArray) else column
    column, owner = normalise(column.take(pa.array(there))), ids[there]
    sort_keys = values.order.encode([column], len(there))
    entries = join_bytes(groups.take(pa.array(owner)), clip(sort_keys, PART))
    entry_ids, distinct = group_ids(entries)
    changes = sum_by(entry_ids, len(distinct), weights[there])
    first = firsts(entry_ids, len(distinct))
    kept = np.flatnonzero(changes)
    first, changes, distinct = first[kept], changes[kept], distinct.take(pa.array(kept))
    stored = values.codec.encode(pa.table({"x": column.take(pa.array(first))})).to_pylist()
    keys = distinct.to_pylist()
    olds = before.get_many(values.state, keys)
    moved = Moved(np.zeros(len(groups), dtype=np.int64))
    news: list[bytes | None] = []
    sort_list, owners = sort_keys.take(pa.array(first)).to_pylist(), owner[first].tolist()
    for key, value, sort_key, group, change in zip(keys, stored, sort_list, owners, changes.tolist(), strict=True):
        was, new = changed(values.state, olds.get(key), value, change)
        news.append(new)
        if not was:
            moved.count[group] += 1
            moved.came.setdefault(group, []).append((sort_key, value))
        elif new is None:
            moved.count[group] -= 1
            moved.gone.setdefault(group, set()).add(key)
    write = Write.of(values.state, keys, news, [olds.get(k) for k in keys])
    return moved, write


def new_ends(
    values: Values,
    olds: list[bytes | None],
    moved: Moved,
    groups: pa.LargeBinaryArray,
    last: bool,
    before: Before,
) -> list[bytes | None]:
    """The first (or last) value of each group after the epoch, given those before it."""
    touched = sorted(moved.came.keys() | moved.gone.keys())
    known = [g for g in touched if olds[g] is not None]
    sort_keys = dict(zip(known, values.encoded([olds[g] or b"" for g in known]), strict=True))
    result, names = list(olds), groups.to_pylist()
    for group in touched:
        name = names[group]
        old, gone = olds[group], moved.gone.get(group, set())
        candidates = list(moved.came.get(group, ()))
        if old is not None:
            entry = name + clip_one(sort_keys[group], PART)
            if entry not in gone:
                candidates.append((sort_keys[group], old))
            else:
                candidates += _next(values, name, gone, last, before)
        best = (max if last else min)(candidates, default=None)
        result[group] = best[1] if best else None
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
        yield values.encoded([row_of(value)])[0], row_of(value)
        if len(key) - len(group) <= PART - DIGEST:
            return
        beginning = beginning or key[: len(group) + PART - DIGEST]
