"""Recomputed states: replaces the whole content of a state in each shard.

    write = new - old        per shard, over all keys of both

Because only the difference is written, this is an epoch like any other: it has undo records, and a retry skips the
shards that already have it.
"""

from __future__ import annotations

from collections.abc import Iterable

from tailrace.store.base import ShardSnapshot, Store, Write


def replace_contents(snapshot: ShardSnapshot, write: Write) -> Write:
    """Turns a write into one that also deletes all other entries of its state."""
    new_values = dict(zip(write.keys.to_pylist(), write.values.to_pylist(), strict=True))
    keys: list[bytes] = []
    news: list[bytes | None] = []
    olds: list[bytes | None] = []
    for run in snapshot.scan(write.state):
        for key, old in run:
            new = new_values.pop(key, None)
            if new != old:
                keys.append(key)
                news.append(new)
                olds.append(old)
    for key, new in new_values.items():
        if new is not None:
            keys.append(key)
            news.append(new)
            olds.append(None)
    return Write.of(write.state, keys, news, olds)


def clear_unwritten_shards(store: Store, states: Iterable[int], epoch: int, keep: int, term: int) -> None:
    """Empties the states in every shard that this epoch did not write: their new content has no rows there."""
    states = list(states)
    for index in range(store.shards):
        shard = store.shard(index)
        with shard.at(epoch - 1) as snapshot:
            unwritten = [s for s in states if (snapshot.applied(s) or 0) < epoch]
            writes = [replace_contents(snapshot, Write.of(s, [], [], [])) for s in unwritten]
        writes = [w for w in writes if len(w.keys)]
        if writes:
            shard.apply(epoch, writes, keep, term)
