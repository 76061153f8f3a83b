"""Entries that a process keeps of what it has written: they are those of the shard, whatever others write meanwhile."""

from __future__ import annotations

import random
from collections.abc import Iterator

import pytest
from hbase_parts import HbaseParts, new_parts

from tailrace.store.base import Write
from tailrace.store.hbase.client import HbaseTable
from tailrace.store.hbase.hbase_shard import HbaseShard
from tailrace.store.hbase.recent_entries import OVERHEAD, RecentEntries
from tailrace.store.hbase.shard_marks import StateMark
from tailrace_hbase.local_cluster import LocalCluster

pytestmark = pytest.mark.hbase
KEYS = [b"a", b"b", b"c", b"d"]
STATE = 7


@pytest.fixture(scope="module")
def parts(cluster: LocalCluster) -> Iterator[HbaseParts]:
    with new_parts(cluster.port) as made:
        yield made


def read(shard: HbaseShard, epoch: int) -> dict[bytes, bytes]:
    with shard.at(epoch) as snapshot:
        return snapshot.get_many(STATE, KEYS)


@pytest.mark.parametrize("seed", range(3))
def test_two_processes_read_what_both_have_written(parts: HbaseParts, seed: int) -> None:
    """Epochs of both at random, some of them rolled back, read at the last epoch or an earlier one."""
    rng, number = random.Random(seed), 200 + seed
    shards = [HbaseShard(parts.client, parts.name, number) for _ in range(2)]
    states: list[dict[bytes, bytes]] = [{}]
    for shard in shards:
        assert read(shard, 0) == {}
    for step in range(40):
        shard, last = rng.choice(shards), len(states) - 1
        if last and rng.random() < 0.15:
            states = states[: rng.randrange(max(1, last - 2), last + 1)]
            assert shard.roll_back(len(states) - 1) == []
        else:
            new = {key: b"%d" % step if rng.random() < 0.7 else None for key in rng.sample(KEYS, rng.randint(0, 3))}
            olds = [states[-1].get(key) for key in new]
            shard.apply(last + 1, [Write.of(STATE, list(new), list(new.values()), olds)], 0)
            states.append({key: value for key, value in {**states[-1], **new}.items() if value is not None})
        for reader in rng.sample(shards, 2):
            epoch = rng.choice([len(states) - 1, rng.randrange(len(states))])
            assert read(reader, epoch) == states[epoch], (step, epoch)
    assert read(HbaseShard(parts.client, parts.name, number), len(states) - 1) == states[-1]


def test_an_earlier_epoch_is_read_beside_a_later_one(parts: HbaseParts) -> None:
    shard = HbaseShard(parts.client, parts.name, 300)
    assert read(shard, 0) == {}
    shard.apply(1, [Write.of(STATE, [b"a", b"b"], [b"1", b"1"], [None, None])], 0)
    shard.apply(2, [Write.of(STATE, [b"a"], [b"2"], [b"1"])], 0)
    assert read(shard, 2) == {b"a": b"2", b"b": b"1"}
    assert read(shard, 1) == {b"a": b"1", b"b": b"1"}
    assert read(shard, 0) == {}


def test_what_was_written_last_is_not_read_again(parts: HbaseParts, monkeypatch: pytest.MonkeyPatch) -> None:
    rows: list[bytes] = []
    get_many = HbaseTable.get_many

    def count(table: HbaseTable, keys: list[bytes], **options: object) -> object:
        rows.extend(keys[1:])  # the first one is the row of marks
        return get_many(table, keys, **options)  # type: ignore[arg-type]

    shard = HbaseShard(parts.client, parts.name, 301)
    assert read(shard, 0) == {}
    shard.apply(1, [Write.of(STATE, [b"a", b"b"], [b"1", None], [None, None])], 0)
    monkeypatch.setattr(HbaseTable, "get_many", count)
    assert read(shard, 1) == {b"a": b"1"}
    assert [row[-1:] for row in rows] == [b"c", b"d"]


def test_a_process_that_was_wrong_pauses_for_longer_each_time() -> None:
    recent, pauses = RecentEntries(), []
    for _ in range(3):
        recent.want(1)
        recent.note(1, StateMark(), StateMark(applied=5, decided=5), [(b"a", b"")])
        assert recent.want(1) is not None
        recent.judge(1, is_right=False)
        reads = 0
        while not recent.is_wanted(1):
            assert recent.want(1) is None
            reads += 1
        pauses.append(reads - 1)  # the last one ends the pause
    assert pauses == [1, 3, 7]
    recent.note(1, StateMark(), StateMark(applied=5, decided=5), [(b"a", b"")])
    recent.judge(1, is_right=True)
    recent.judge(1, is_right=False)
    assert [recent.want(1), recent.is_wanted(1), recent.want(1), recent.is_wanted(1)] == [None, False, None, True]


def test_the_size_is_limited() -> None:
    recent, first, mark = RecentEntries(most=3 * (OVERHEAD + 1) + 10), StateMark(), StateMark(applied=5, decided=5)
    for state in (1, 2):
        assert recent.want(state) is None
        recent.note(state, first, mark, [(b"%d" % n, b"") for n in range(2 + state)])
    assert recent.want(1) is None
    known = recent.want(2)
    assert known is not None
    assert list(known.entries) == [b"1", b"2", b"3"]
    recent.note(2, mark, StateMark(applied=6, decided=6), [(b"3", b"x" * 9), (b"4", b"x" * 99)])
    known = recent.want(2)
    assert known is not None
    assert list(known.entries.items()) == [(b"3", (6, b"x" * 9)), (b"4", (6, b"x" * 99))]
    recent.note(2, known.mark, mark, [(b"large", b"x" * 1000)])
    known = recent.want(2)
    assert known is not None
    assert (known.entries, known.size) == ({}, 0)
