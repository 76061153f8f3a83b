"""A stage: the one place where Spark meets the shards.

    delta in ──► split by shard ──► rule.step(delta, shard before the epoch) ──► delta out
                                              └──► writes ──► shard.apply(epoch)

A rule is a pure function of its input and of the shard *before* the epoch. So it does not matter how
often a task runs, or whether its writes were applied the first time: the shard as it was before the
epoch can always be had back (undo records), hence the same delta comes out, and `apply` skips what is done.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from typing import Any, Protocol

import numpy as np
import pyarrow as pa

from tailrace.delta import SHARD
from tailrace.maintain.reset import instead
from tailrace.source.assignment import Assignment, Handed
from tailrace.store.base import Shard, ShardSnapshot, Write
from tailrace.store.lmdb import attach

APPLYING = 4  # shards that one task commits at a time


class Before:
    """A shard's states before the epoch."""

    def __init__(self, snapshot: ShardSnapshot, work: Assignment) -> None:
        self._snapshot, self._work, self._blank = snapshot, work, work.blank

    def settled(self, state: int, keys: Sequence[bytes]) -> dict[bytes, bytes] | None:
        """What these keys hold after the epoch, if that is settled: the state has the epoch already.

        A rule whose answer may come out differently when computed again must then give the answer that stands.
        """
        applied = self._snapshot.applied(state)
        if state in self._work.fixed or (applied is not None and applied >= self._work.epoch):
            return self._snapshot.moved_to(self._work.epoch).get_many(state, keys)
        return None

    def get_many(self, state: int, keys: Sequence[bytes]) -> dict[bytes, bytes]:
        return {} if self._blank or not keys else self._snapshot.get_many(state, keys)

    def scan(self, state: int, low: bytes, high: bytes | None, ahead: int = 256) -> Iterator[tuple[bytes, bytes]]:
        """Entries in order; `ahead` is how many are read at a time."""
        if not self._blank:
            for run in self._snapshot.scan(state, low, high, size=ahead):
                yield from run

    def scan_back(self, state: int, low: bytes, high: bytes | None) -> Iterator[tuple[bytes, bytes]]:
        return iter(()) if self._blank else self._snapshot.scan_back(state, low, high)


class Rule(Protocol):
    """How one operator answers a delta."""

    @property
    def output(self) -> pa.Schema:
        """The columns it gives, `_weight` included."""

    def step(self, delta: pa.Table, before: Before) -> tuple[pa.Table | None, list[Write]]:
        """The delta out, and what the shard must hold from now on."""


def run(batches: Iterator[pa.RecordBatch], rule: Rule, store: str, handed: Handed) -> Iterator[pa.RecordBatch]:
    """One Spark task of a stage: all rows of some shards."""
    collected = [b for b in batches if b.num_rows]
    if not collected:
        return
    work = handed.take()
    with ThreadPoolExecutor(APPLYING) as pool:  # a durable commit waits for the disk: shards wait side by side
        applied = []
        for shard, delta in _by_shard(pa.Table.from_batches(collected)):
            yield from _step(attach(store).shard(shard), delta, rule, work, lambda f: applied.append(pool.submit(f)))
        for done in applied:
            done.result()


def _step(
    holder: Shard, delta: pa.Table, rule: Rule, work: Assignment, start: Callable[[Callable[[], Any]], None]
) -> Iterator[pa.RecordBatch]:
    with holder.at(work.epoch - 1) as snapshot:
        out, writes = rule.step(delta, Before(snapshot, work))
        writes = [w for w in writes if w.state not in work.fixed]
        if work.reset:
            writes = [instead(snapshot, w) for w in writes]
    if not work.reset:  # else a state that stays as it is must be marked as done too
        writes = [w for w in writes if len(w.keys)]
    if work.blank and not work.reset:
        writes = [Write(w.state, w.keys, w.values, None) for w in writes]
    if writes:
        start(partial(holder.apply, work.epoch, writes, work.keep))
    if out is not None and out.num_rows:
        yield from out.select(rule.output.names).cast(rule.output).to_batches(max_chunksize=200_000)


def _by_shard(table: pa.Table) -> Iterator[tuple[int, pa.Table]]:
    shards = table.column(SHARD).to_numpy()
    rest = table.drop_columns([SHARD])
    if len(shards) == 0:
        return
    if (shards == shards[0]).all():
        yield int(shards[0]), rest.combine_chunks()
        return
    order = np.argsort(shards, kind="stable")
    rest = rest.take(pa.array(order))
    numbers, starts = np.unique(shards[order], return_index=True)
    ends = [*starts[1:].tolist(), len(shards)]
    for number, start, end in zip(numbers.tolist(), starts.tolist(), ends, strict=True):
        yield number, rest.slice(start, end - start).combine_chunks()
