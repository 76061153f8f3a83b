"""An engine without exactly-once: a retried epoch starts from the state that the first attempt left."""

from __future__ import annotations

from typing import Any

from tailrace.rules.before import Before
from tailrace.store.inspection import Mark
from tailrace.store.lmdb.shard import LmdbShard, decode_mark, encode_mark, state_prefix

_original_init, _original_apply = Before.__init__, LmdbShard.apply


def begin(self: Before, store: Any, epoch: int, **options: Any) -> None:
    _original_init(self, store, epoch + 1, **options)


def apply(self: LmdbShard, epoch: int, writes: Any, keep: int, term: int = 0) -> bool:
    with self._env.write() as txn:
        for write in writes:
            mark = decode_mark(txn.get(state_prefix(write.state), db=self._marks))
            if mark is not None:  # forgets that the shard already has the epoch
                unapplied = Mark(0, 0, None, mark.form)
                txn.put(state_prefix(write.state), encode_mark(unapplied), db=self._marks)
    return _original_apply(self, epoch, writes, keep, term)


Before.__init__ = begin  # type: ignore[method-assign]
LmdbShard.apply = apply  # type: ignore[method-assign]
