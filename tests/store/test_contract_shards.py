"""The contract of a store: shards."""

from __future__ import annotations

import random

import pyarrow as pa
import pytest

from tailrace.errors import SnapshotGone
from tailrace.store.base import Store, Write


def entries(store: Store, epoch: int) -> dict[bytes, bytes]:
    with store.shard(0).at(epoch) as snapshot:
        scanned = {k: v for run in snapshot.scan(7) for k, v in run}
        assert snapshot.get_many(7, [b"a", b"b", b"c"]) == scanned
        assert list(snapshot.scan_back(7, b"", None)) == sorted(scanned.items(), reverse=True)
    return scanned


def test_shards_are_readable_at_every_retained_epoch(store: Store) -> None:
    shard = store.shard(0)
    shard.apply(1, [Write.of(7, [b"a", b"b"], [b"1", b"1"], [None, None])], keep=0)
    shard.apply(2, [Write.of(7, [b"a", b"c"], [b"2", b"2"], [b"1", None])], keep=1)
    shard.apply(4, [Write.of(7, [b"a", b"b"], [None, b"4"], [b"2", b"1"])], keep=1)
    assert entries(store, 1) == {b"a": b"1", b"b": b"1"}
    assert entries(store, 2) == entries(store, 3) == {b"a": b"2", b"b": b"1", b"c": b"2"}
    assert entries(store, 4) == entries(store, 9) == {b"b": b"4", b"c": b"2"}
    with pytest.raises(SnapshotGone):
        entries(store, 0)


def test_values_under_prefixes(store: Store) -> None:
    """The result at an epoch is the same before and after later epochs are applied."""
    shard = store.shard(0)
    keys = [b"a\x00", b"a\x01", b"ab", b"b", b"b\xff", b"c"]
    shard.apply(1, [Write.of(7, keys, keys, [None] * len(keys)), Write.of(8, [b"b"], [b"other"], [None])], 0)
    expected = [[b"a\x00", b"a\x01", b"ab"], [b"ab"], [b"b", b"b\xff"], [], [b"c"]]
    prefixes = [b"a", b"ab", b"b", b"bb", b"c"]
    with shard.at(1) as snapshot:
        assert list(snapshot.under(7, prefixes)) == expected
    shard.apply(2, [Write.of(7, [b"ab", b"bb"], [None, b"new"], [b"ab", None])], 0)
    with shard.at(1) as snapshot:
        assert list(snapshot.under(7, prefixes)) == expected
    with shard.at(2) as snapshot:
        assert list(snapshot.under(7, prefixes)) == [expected[0][:2], [], [b"b", b"new", b"b\xff"], [b"new"], [b"c"]]


def test_an_epoch_is_applied_once(store: Store) -> None:
    shard = store.shard(0)
    first = Write.of(7, [b"a"], [b"1"], [None])
    assert shard.apply(1, [first], keep=0)
    assert not shard.apply(1, [Write.of(7, [b"a"], [b"other"], [b"1"])], keep=0)
    assert entries(store, 1) == {b"a": b"1"}
    assert entries(store, 0) == {}


def test_epoch_0_is_an_epoch(store: Store) -> None:
    """A view over tables that nobody has written is built in it: COUNT(*) has a row then, too."""
    shard = store.shard(0)
    with shard.at(0) as snapshot:
        assert snapshot.applied(7) is None
    assert shard.apply(0, [Write.of(7, [b"a"], [b"0"], None)], keep=0)
    assert not shard.apply(0, [Write.of(7, [b"a"], [b"other"], None)], keep=0)
    with shard.at(0) as snapshot:
        assert snapshot.applied(7) == 0
    assert entries(store, 0) == {b"a": b"0"}
    shard.apply(1, [Write.of(7, [b"a"], [b"1"], [b"0"])], keep=0)
    assert (entries(store, 0), entries(store, 1)) == ({b"a": b"0"}, {b"a": b"1"})


def test_a_snapshot_lists_the_keys_that_later_epochs_changed(store: Store) -> None:
    shard = store.shard(0)
    shard.apply(1, [Write.of(7, [b"a", b"b"], [b"1", b"1"], [None, None])], keep=0)
    shard.apply(2, [Write.of(7, [b"c", b"a"], [b"2", None], [None, b"1"])], keep=0)
    with shard.at(0) as snapshot:
        assert [snapshot.changed(7, epoch) for epoch in (1, 2, 3)] == [[b"a", b"b"], [b"a", b"c"], []]
        assert snapshot.moved_to(2).get_many(7, [b"a", b"c"]) == {b"c": b"2"}
    shard.apply(3, [Write.of(7, [b"c"], [b"3"], [b"2"])], keep=2)
    with shard.at(1) as snapshot, pytest.raises(SnapshotGone):
        snapshot.changed(7, 2)


def test_many_undo_chunks(store: Store) -> None:
    keys = [f"{i:06d}".encode() for i in range(20_000)]
    shard = store.shard(1)
    shard.apply(1, [Write.of(3, keys, [b"old"] * len(keys), [None] * len(keys))], keep=0)
    shard.apply(2, [Write.of(3, keys[::2], [None] * 10_000, [b"old"] * 10_000)], keep=1)
    with shard.at(1) as snapshot:
        assert sum(len(run) for run in snapshot.scan(3)) == 20_000
        assert snapshot.get_many(3, [keys[8], keys[9], b"x"]) == {keys[8]: b"old", keys[9]: b"old"}
        assert len(snapshot.get_many(3, keys[5000:5100])) == 100
    with shard.at(2) as snapshot:
        assert sum(len(run) for run in snapshot.scan(3)) == 10_000
    shard.drop(3)
    with shard.at(2) as snapshot:
        assert list(snapshot.scan(3)) == []


@pytest.mark.parametrize("seed", range(4))
def test_every_read_of_random_epochs_is_that_of_a_model(store: Store, seed: int) -> None:
    """Values of many lengths, mostly zero bytes, in several neighbouring states; read at each epoch that is kept."""
    rng, shard, keep = random.Random(seed), store.shard(0), 3
    models: list[dict[int, dict[bytes, bytes]]] = [{5: {}, 6: {}, 7: {}}]
    for epoch in range(1, 9):
        before, writes = models[-1], []
        for state in rng.sample([5, 6, 7], 2):
            keys = sorted({rng.randrange(2_000).to_bytes(2) for _ in range(rng.choice([3, 50, 900]))})
            values = [None if rng.random() < 0.2 else random_value(rng, epoch) for _ in keys]
            writes.append(Write.of(state, keys, values, [before[state].get(key) for key in keys]))
        after = {state: dict(entries) for state, entries in before.items()}
        for write in writes:
            for key, value in zip(write.keys.to_pylist(), write.values.to_pylist(), strict=True):
                after[write.state].pop(key, None)
                if value is not None:
                    after[write.state][key] = value
        models.append(after)
        shard.apply(epoch, writes, max(0, epoch - keep))
    for epoch in range(len(models) - keep, len(models)):
        with shard.at(epoch) as snapshot:
            for state, model in models[epoch].items():
                ordered = sorted(model.items())
                assert [e for run in snapshot.scan(state, size=100) for e in run] == ordered
                assert list(snapshot.scan_back(state, b"\x01", b"\x05")) == [
                    entry for entry in reversed(ordered) if b"\x01" <= entry[0] < b"\x05"
                ]
                prefixes = [bytes([i]) for i in range(8)]
                assert list(snapshot.under(state, prefixes)) == [
                    [value for key, value in ordered if key.startswith(prefix)] for prefix in prefixes
                ]
                for wanted in ([k for k, _ in ordered[:20]], [i.to_bytes(2) for i in range(0, 2_000, 7)]):
                    assert snapshot.get_many(state, wanted) == {k: model[k] for k in wanted if k in model}
                    array = pa.array(wanted, pa.large_binary())
                    assert snapshot.values(state, array) == [model.get(k) for k in wanted]


def random_value(rng: random.Random, epoch: int) -> bytes:
    number = rng.randrange(1 << rng.choice([4, 12, 40]))
    return bytes(1) + number.to_bytes(8, "little") + bytes(8) + b"text"[: epoch % 5] * rng.choice([1, 1, 60])
