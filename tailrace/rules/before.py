"""The shards before the epoch, seen as one, and the rule that reads them.

    key inside a task  =  number of its shard, key inside the shard

A task works for several shards at once. Its rules put the shard's number in front of every key they make
(`prefix_shards`), so that they need no loop over shards: `Before` looks each key up where it lives, and
`split_by_shard` takes the writes apart again.

A rule is a pure function of its input and of the shards *before* the epoch. So it does not matter how
often a task runs, or whether its writes were applied the first time: the shards as they were before the
epoch can always be had back (undo records), hence the same delta comes out, and `apply` skips what is done.
"""

from __future__ import annotations

import struct
from collections.abc import Iterator, Sequence
from contextlib import ExitStack
from itertools import pairwise
from typing import Protocol

import numpy as np
import pyarrow as pa

from tailrace.codec import arrays
from tailrace.delta import SHARD
from tailrace.store.base import ShardSnapshot, Store, Write

_SHARD = struct.Struct(">H")


class Rule(Protocol):
    """How one operator answers the deltas of its inputs."""

    @property
    def output(self) -> pa.Schema:
        """The columns it gives, `_weight` included."""

    def step(self, deltas: Sequence[pa.Table], before: Before) -> tuple[pa.Table | None, list[Write]]:
        """The delta out, and what the shards must hold from now on.

        Each row of the deltas says in `_shard` where it belongs; so does each key of the writes.
        """


def prefix_shards(rows: pa.Table, keys: pa.LargeBinaryArray) -> pa.LargeBinaryArray:
    """The keys of these rows, each with the number of its row's shard in front."""
    shards = rows.column(SHARD).to_numpy()
    return arrays.join_cells([arrays.pack_records(shards.astype(">u2")), keys]) if len(keys) else keys


def split_by_shard(write: Write) -> Iterator[tuple[int, Write]]:
    """The parts of a write by shard."""
    for number, keys, (start, end) in _apart(write.keys):
        values, olds = (None if a is None else a.slice(start, end - start) for a in (write.values, write.olds))
        yield number, Write(write.state, keys, values, olds)


def _apart(keys: pa.LargeBinaryArray) -> Iterator[tuple[int, pa.LargeBinaryArray, tuple[int, int]]]:
    """Keys in order, shard by shard: its number, the keys inside it, and where they stand."""
    if not len(keys):
        return
    edges, data = arrays.offsets(keys)[:-1], np.frombuffer(arrays.content(keys), np.uint8)
    numbers = data[edges].astype(np.int64) << 8 | data[edges + 1]
    inside = arrays.drop_prefix(keys, _SHARD.size)
    starts = np.concatenate(([0], np.flatnonzero(np.diff(numbers)) + 1, [len(numbers)])).tolist()
    for start, end in pairwise(starts):
        yield int(numbers[start]), inside.slice(start, end - start), (start, end)


class Before:
    """All states of a task's shards before the epoch.

    `blank`: states are read as if empty, because views are built from nothing. `fixed` are states that other views
    keep already.
    """

    def __init__(self, store: Store, epoch: int, *, blank: bool = False, fixed: frozenset[int] = frozenset()) -> None:
        self._store, self._epoch, self._blank, self._fixed = store, epoch, blank, fixed
        self._open = ExitStack()
        self._snapshots: dict[bytes, ShardSnapshot] = {}

    def __enter__(self) -> Before:
        return self

    def __exit__(self, *raised: object) -> None:
        self.reopen()

    def reopen(self) -> None:
        """See from now on what others have settled in the meantime."""
        self._open.close()
        self._snapshots.clear()

    def _shard(self, number: bytes) -> ShardSnapshot:
        if number not in self._snapshots:
            shard = self._store.shard(_SHARD.unpack(number)[0])
            self._snapshots[number] = self._open.enter_context(shard.at(self._epoch - 1))
        return self._snapshots[number]

    def shard(self, number: int) -> ShardSnapshot:
        """One of the shards by itself."""
        return self._shard(_SHARD.pack(number))

    def applied_keys(self, state: int, keys: Sequence[bytes]) -> list[bytes]:
        """Those of the keys for which the epoch is settled: their shard has it already.

        A rule whose answer may come out differently when computed again must then give the answer that stands.
        """
        if state in self._fixed:
            return list(keys)
        done = {}
        for number in {key[: _SHARD.size] for key in keys}:
            applied = self._shard(number).applied(state)
            done[number] = applied is not None and applied >= self._epoch
        return [key for key in keys if done[key[: _SHARD.size]]]

    def after(self) -> Before:
        """The states as they are after the epoch, where that is settled."""
        return _After(self._store, self._epoch, self)

    def get_many(self, state: int, keys: Sequence[bytes]) -> dict[bytes, bytes]:
        if self._blank or not keys:
            return {}
        found: dict[bytes, bytes] = {}
        for number, inside in _by_shard(keys).items():
            found.update((number + k, v) for k, v in self._shard(number).get_many(state, inside).items())
        return found

    def values(self, state: int, keys: pa.LargeBinaryArray) -> pa.LargeBinaryArray:
        """What each of the keys, which are in order, holds; NULL for nothing."""
        if self._blank:
            return pa.nulls(len(keys), pa.large_binary())
        found: list[bytes | None] = []
        for number, inside, _ in _apart(keys):
            found += self.shard(number).values(state, inside)
        return pa.array(found, pa.large_binary())

    def under(self, state: int, prefixes: Sequence[bytes]) -> Iterator[tuple[bytes, list[bytes]]]:
        """Each of the prefixes, fastest in order, with the values of the keys that begin with it."""
        if not self._blank:
            for number, inside in _by_shard(prefixes).items():
                for prefix, values in zip(inside, self._shard(number).under(state, inside), strict=True):
                    yield number + prefix, values

    def scan(self, state: int, low: bytes, high: bytes | None, ahead: int = 256) -> Iterator[tuple[bytes, bytes]]:
        """Entries in order, all of one shard; `ahead` is how many are read at a time."""
        if not self._blank:
            number = low[: _SHARD.size]
            for run in self._shard(number).scan(state, *_inside(number, low, high), size=ahead):
                for key, value in run:
                    yield number + key, value

    def scan_back(self, state: int, low: bytes, high: bytes | None) -> Iterator[tuple[bytes, bytes]]:
        if not self._blank:
            number = low[: _SHARD.size]
            for key, value in self._shard(number).scan_back(state, *_inside(number, low, high)):
                yield number + key, value


class _After(Before):
    """The same shards in the same transactions, an epoch later."""

    def __init__(self, store: Store, epoch: int, before: Before) -> None:
        super().__init__(store, epoch)
        self._before = before

    def _shard(self, number: bytes) -> ShardSnapshot:
        if number not in self._snapshots:
            self._snapshots[number] = self._before._shard(number).moved_to(self._epoch)
        return self._snapshots[number]


def _by_shard(keys: Sequence[bytes]) -> dict[bytes, list[bytes]]:
    found: dict[bytes, list[bytes]] = {}
    for key in keys:
        found.setdefault(key[:2], []).append(key[2:])
    return found


def _inside(number: bytes, low: bytes, high: bytes | None) -> tuple[bytes, bytes | None]:
    """Bounds inside the shard; one that lies beyond it is none."""
    return low[_SHARD.size :], high[_SHARD.size :] if high is not None and high[: _SHARD.size] == number else None
