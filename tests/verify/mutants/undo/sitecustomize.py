"""An engine without undo: readers see the current content of shards, even of an uncommitted epoch."""

from __future__ import annotations

from tailrace.store.lmdb.shard import LmdbShardSnapshot

LmdbShardSnapshot._later_undos = lambda self, state: []  # type: ignore[method-assign]
