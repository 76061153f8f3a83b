"""An engine without isolation: two writers read and write one group, each without the other's change."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from tailrace.store.inspection import Mark
from tailrace.store.lmdb.shard import LmdbShard, decode_mark, encode_mark, state_prefix
from tailrace.task.program import Program

_original_run, _original_apply = Program.run, LmdbShard.apply


def run(self: Program, store: Any, work: Any, nodes: Any, rows: Any) -> Iterator[Any]:
    for node in nodes:
        yield from _original_run(self, store, work, [node], rows)


def apply(self: LmdbShard, epoch: int, writes: Any, keep: int, term: int = 0) -> bool:
    with self._env.write() as txn:
        for write in writes:
            mark = decode_mark(txn.get(state_prefix(write.state), db=self._marks))
            if mark is not None:  # hides the first writer's apply from the second
                unapplied = Mark(0, 0, None, mark.form)
                txn.put(state_prefix(write.state), encode_mark(unapplied), db=self._marks)
    return _original_apply(self, epoch, writes, keep, term)


Program.run = run  # type: ignore[method-assign]
LmdbShard.apply = apply  # type: ignore[method-assign]
