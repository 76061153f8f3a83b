"""An engine that is not exactly once: an epoch that is tried again starts from what the first attempt left."""

from __future__ import annotations

from typing import Any

from tailrace.rules.before import Before
from tailrace.store.lmdb.shard import LmdbShard

_begun, _applied = Before.__init__, LmdbShard.apply


def begin(self: Before, store: Any, epoch: int, **options: Any) -> None:
    _begun(self, store, epoch + 1, **options)


def apply(self: LmdbShard, epoch: int, writes: Any, keep: int, term: int = 0) -> bool:
    with self._env.write() as txn:
        for write in writes:
            txn.delete(write.state.to_bytes(4), db=self._marks)  # whether it has the epoch is forgotten
    return _applied(self, epoch, writes, keep, term)


Before.__init__ = begin  # type: ignore[method-assign]
LmdbShard.apply = apply  # type: ignore[method-assign]
