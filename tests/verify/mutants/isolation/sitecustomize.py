"""An engine without isolation: two writers read a group and write it back, each without the other's change."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from tailrace.store.lmdb.shard import LmdbShard
from tailrace.task.program import Program

_run, _applied = Program.run, LmdbShard.apply


def run(self: Program, store: Any, work: Any, nodes: Any, rows: Any) -> Iterator[Any]:
    for node in nodes:
        yield from _run(self, store, work, [node], rows)


def apply(self: LmdbShard, epoch: int, writes: Any, keep: int, term: int = 0) -> bool:
    with self._env.write() as txn:
        for write in writes:
            txn.delete(write.state.to_bytes(4), db=self._marks)  # the second writer does not know of the first
    return _applied(self, epoch, writes, keep, term)


Program.run = run  # type: ignore[method-assign]
LmdbShard.apply = apply  # type: ignore[method-assign]
