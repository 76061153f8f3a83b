"""What a delta rule reads: the states of all shards of a task as of before the epoch. Also the `Rule` interface.

    key inside a task  =  shard number, key inside the shard

A task works on several shards at once. Its rules prefix every key with the shard number (`prefix_shards`), so they need
no loop over shards. `Before` looks each key up in its shard, and `split_by_shard` splits the writes again.

A rule is a pure function of its input and of the shards *before* the epoch. Undo records reconstruct those shards even
after the epoch's writes were applied. So a task can run any number of times: it computes the same delta, and `apply`
skips the shards that already have the epoch.
"""

from __future__ import annotations

import struct
from collections.abc import Iterator, Sequence
from contextlib import ExitStack
from itertools import chain, pairwise
from typing import Protocol

import numpy as np
import pyarrow as pa

from tailrace.codec import arrays
from tailrace.delta import SHARD
from tailrace.store.base import ShardSnapshot, Store, Write

_SHARD = struct.Struct(">H")


class Rule(Protocol):
    """The delta rule of one operator."""

    @property
    def output(self) -> pa.Schema:
        """The columns of the output delta, including `_weight`."""

    def step(self, deltas: Sequence[pa.Table], before: Before) -> tuple[pa.Table | None, list[Write]]:
        """The output delta, and the writes to the states.

        Each row of the deltas has its shard in `_shard`. Each key of the writes begins with its shard number.
        """


def prefix_shards(rows: pa.Table, keys: pa.LargeBinaryArray) -> pa.LargeBinaryArray:
    """Prefixes the key of each row with the row's shard number."""
    shards = rows.column(SHARD).to_numpy()
    return arrays.join_cells([arrays.pack_records(shards.astype(">u2")), keys]) if len(keys) else keys


def split_by_shard(write: Write) -> Iterator[tuple[int, Write]]:
    """Splits a write into one write per shard, with keys inside the shard."""
    for number, keys, (start, end) in _split_keys(write.keys):
        values, olds = (None if a is None else a.slice(start, end - start) for a in (write.values, write.olds))
        yield number, Write(write.state, keys, values, olds)


def _split_keys(keys: pa.LargeBinaryArray) -> Iterator[tuple[int, pa.LargeBinaryArray, tuple[int, int]]]:
    """Splits sorted keys by shard: the shard number, the keys inside the shard, and their range in `keys`."""
    if not len(keys):
        return
    edges, data = arrays.offsets(keys)[:-1], np.frombuffer(arrays.content(keys), np.uint8)
    numbers = data[edges].astype(np.int64) << 8 | data[edges + 1]
    inside = arrays.drop_prefix(keys, _SHARD.size)
    starts = np.concatenate(([0], np.flatnonzero(np.diff(numbers)) + 1, [len(numbers)])).tolist()
    for start, end in pairwise(starts):
        yield int(numbers[start]), inside.slice(start, end - start), (start, end)


class Before:
    """All states of a task's shards, as of before the epoch.

    `blank`: all states read as empty, because views are built from scratch. `fixed` are states that other views
    already maintain and that are up to date for this epoch. `base`: the epoch to read at, if not the one before.
    """

    def __init__(
        self,
        store: Store,
        epoch: int,
        *,
        blank: bool = False,
        fixed: frozenset[int] = frozenset(),
        base: int | None = None,
    ) -> None:
        self._store, self._epoch, self._blank, self._fixed = store, epoch, blank, fixed
        self._base = epoch - 1 if base is None else base
        self._open = ExitStack()
        self._snapshots: dict[bytes, ShardSnapshot] = {}

    def __enter__(self) -> Before:
        return self

    def __exit__(self, *raised: object) -> None:
        self.reopen()

    def reopen(self) -> None:
        """Reopens the snapshots, so that writes that other tasks applied in the meantime become visible."""
        self._open.close()
        self._snapshots.clear()

    def _shard(self, number: bytes) -> ShardSnapshot:
        if number not in self._snapshots:
            shard = self._store.shard(_SHARD.unpack(number)[0])
            self._snapshots[number] = self._open.enter_context(shard.at(self._base))
        return self._snapshots[number]

    def shard(self, number: int) -> ShardSnapshot:
        """The snapshot of one shard; its keys have no shard prefix."""
        return self._shard(_SHARD.pack(number))

    def applied_keys(self, state: int, keys: Sequence[bytes]) -> list[bytes]:
        """The keys for which this epoch is already applied to the state in their shard.

        A rule whose answer may differ when recomputed must use the stored answer for these keys.
        """
        if state in self._fixed:
            return list(keys)
        is_applied = {}
        for number in {key[: _SHARD.size] for key in keys}:
            applied = self._shard(number).applied(state)
            is_applied[number] = applied is not None and applied >= self._epoch
        return [key for key in keys if is_applied[key[: _SHARD.size]]]

    def after(self) -> Before:
        """The states after the epoch. Valid only for keys in `applied_keys`."""
        return _After(self._store, self._epoch, self)

    def get_many(self, state: int, keys: Sequence[bytes]) -> dict[bytes, bytes]:
        if self._blank or not keys:
            return {}
        reads = [(number, self._shard(number), inside) for number, inside in _by_shard(keys).items()]
        found = self._store.read_shards(lambda read: read[1].get_many(state, read[2]), reads)
        return {number + k: v for (number, *_), values in zip(reads, found, strict=True) for k, v in values.items()}

    def values(self, state: int, keys: pa.LargeBinaryArray) -> pa.LargeBinaryArray:
        """The value of each key, NULL if it has none. The keys must be sorted."""
        if self._blank:
            return pa.nulls(len(keys), pa.large_binary())
        reads = [(self.shard(number), inside) for number, inside, _ in _split_keys(keys)]
        found = self._store.read_shards(lambda read: read[0].values(state, read[1]), reads)
        return pa.array(list(chain.from_iterable(found)), pa.large_binary())

    def under(self, state: int, prefixes: Sequence[bytes]) -> Iterator[tuple[bytes, list[bytes]]]:
        """Each prefix with the values of the keys that start with it. Fastest if the prefixes are sorted."""
        if not self._blank:
            for number, inside in _by_shard(prefixes).items():
                for prefix, values in zip(inside, self._shard(number).under(state, inside), strict=True):
                    yield number + prefix, values

    def scan(self, state: int, low: bytes, high: bytes | None, ahead: int = 256) -> Iterator[tuple[bytes, bytes]]:
        """Entries of one shard in key order. `ahead` is the number of entries read at a time."""
        if not self._blank:
            number = low[: _SHARD.size]
            for run in self._shard(number).scan(state, *_bounds_inside(number, low, high), size=ahead):
                for key, value in run:
                    yield number + key, value

    def scan_back(self, state: int, low: bytes, high: bytes | None) -> Iterator[tuple[bytes, bytes]]:
        if not self._blank:
            number = low[: _SHARD.size]
            for key, value in self._shard(number).scan_back(state, *_bounds_inside(number, low, high)):
                yield number + key, value


class _After(Before):
    """The same shards in the same read transactions, one epoch later."""

    def __init__(self, store: Store, epoch: int, before: Before) -> None:
        super().__init__(store, epoch)
        self._before = before

    def _shard(self, number: bytes) -> ShardSnapshot:
        if number not in self._snapshots:
            self._snapshots[number] = self._before._shard(number).moved_to(self._epoch)
        return self._snapshots[number]


def _by_shard(keys: Sequence[bytes]) -> dict[bytes, list[bytes]]:
    keys_by_shard: dict[bytes, list[bytes]] = {}
    for key in keys:
        keys_by_shard.setdefault(key[: _SHARD.size], []).append(key[_SHARD.size :])
    return keys_by_shard


def _bounds_inside(number: bytes, low: bytes, high: bytes | None) -> tuple[bytes, bytes | None]:
    """Scan bounds without the shard prefix. An upper bound beyond the shard becomes None."""
    return low[_SHARD.size :], high[_SHARD.size :] if high is not None and high[: _SHARD.size] == number else None
