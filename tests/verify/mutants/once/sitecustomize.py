"""An engine without exactly-once: a retried epoch starts from the state that the first attempt left."""

from __future__ import annotations

from typing import Any

from tailrace.rules.before import Before
from tailrace.store.lmdb.shard import LmdbShard

_original_init, _original_apply = Before.__init__, LmdbShard.apply


def begin(self: Before, store: Any, epoch: int, **options: Any) -> None:
    _original_init(self, store, epoch + 1, **options)


def apply(self: LmdbShard, epoch: int, writes: Any, keep: int, term: int = 0) -> bool:
    with self._env.write() as txn:
        for write in writes:
            txn.delete(write.state.to_bytes(4), db=self._marks)  # forgets that the shard already has the epoch
    return _original_apply(self, epoch, writes, keep, term)


Before.__init__ = begin  # type: ignore[method-assign]
LmdbShard.apply = apply  # type: ignore[method-assign]
