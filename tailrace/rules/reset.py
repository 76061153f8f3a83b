"""States that are computed anew: what they come to hold takes the place of what they held.

    write = new - old        per shard, over all keys that either has

Written as the difference it is an epoch like any other: there is an undo record, and a shard that has its
part keeps it when the work is done again.
"""

from __future__ import annotations

from collections.abc import Iterable

from tailrace.store.base import ShardSnapshot, Store, Write


def replace_contents(snapshot: ShardSnapshot, write: Write) -> Write:
    """The write that leaves a state with these entries and no others."""
    wanted = dict(zip(write.keys.to_pylist(), write.values.to_pylist(), strict=True))
    keys: list[bytes] = []
    news: list[bytes | None] = []
    olds: list[bytes | None] = []
    for run in snapshot.scan(write.state):
        for key, old in run:
            new = wanted.pop(key, None)
            if new != old:
                keys.append(key)
                news.append(new)
                olds.append(old)
    for key, new in wanted.items():
        if new is not None:
            keys.append(key)
            news.append(new)
            olds.append(None)
    return Write.of(write.state, keys, news, olds)


def clear_unwritten_shards(store: Store, states: Iterable[int], epoch: int, keep: int, term: int) -> None:
    """Empty these states in the shards that no row came to: their new contents have nothing there."""
    listed = list(states)
    for index in range(store.shards):
        shard = store.shard(index)
        with shard.at(epoch - 1) as snapshot:
            passed = [s for s in listed if (snapshot.applied(s) or 0) < epoch]
            writes = [replace_contents(snapshot, Write.of(s, [], [], [])) for s in passed]
        writes = [w for w in writes if len(w.keys)]
        if writes:
            shard.apply(epoch, writes, keep, term)
