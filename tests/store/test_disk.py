"""Disk space of the embedded store, in pages: entries fill them, and freed ones are used again."""

from __future__ import annotations

import random
from collections.abc import Iterator
from pathlib import Path

import pytest

from tailrace.store.base import Write
from tailrace.store.lmdb.settings import Settings, create
from tailrace.store.lmdb.store import LmdbStore

PAGE = 4096
STATES = (5, 6, 7, 8)
COUNT = 40_000


def opened(path: Path, format_: int) -> LmdbStore:
    create(path, Settings(format=format_, nodes=1, shards=1, map_size=1 << 30, durable=False))
    return LmdbStore(path)


@pytest.fixture(params=[3, 4])
def store(tmp_path: Path, request: pytest.FixtureRequest) -> Iterator[LmdbStore]:
    store = opened(tmp_path / "store", request.param)
    yield store
    store.close()


def value(number: int) -> bytes:
    """A row as views store it: a weight, two integers and a short text."""
    return (1).to_bytes(8, "little") + number.to_bytes(8, "little") + (number % 100).to_bytes(8, "little") + b"done"


def load(store: LmdbStore, epoch: int, states: tuple[int, ...], numbers: range, *, begins: bool = False) -> None:
    """Adds entries. `begins`: the states begin with this epoch, so there is no undo record."""
    keys = [n.to_bytes(8) for n in numbers]
    values, olds = [value(n) for n in numbers], None if begins else [None] * len(keys)
    store.shard(0).apply(epoch, [Write.of(state, keys, values, olds) for state in states], epoch - 1)


def churn(store: LmdbStore, epochs: range, size: int) -> None:
    """Changes `size` random entries of each state in each epoch. The number of entries stays the same."""
    rng = random.Random(7)
    for epoch in epochs:
        chosen = sorted(rng.sample(range(COUNT), size))
        keys, values = [n.to_bytes(8) for n in chosen], [value(n + epoch) for n in chosen]
        writes = [Write.of(state, keys, values, [value(n) for n in chosen]) for state in STATES]
        store.shard(0).apply(epoch, writes, epoch - 1)


def test_growing_keys_fill_the_pages_of_every_state(store: LmdbStore) -> None:
    """Ten epochs append to states that lie side by side. LMDB would leave the pages of all but the last half full."""
    for epoch in range(1, 11):
        load(store, epoch, STATES, range((epoch - 1) * 2_000, epoch * 2_000))
    sizes = store.sizes([])
    # The packed key, the packed value, and what LMDB adds. The value has a weight only in format 3, 8 bytes otherwise.
    entry = (12 if store.settings.format == 3 else 3) + (9 if store.settings.format == 3 else 4) + 11
    for state in STATES:
        assert 20_000 * entry <= sizes.states[state].bytes < 1.35 * 20_000 * entry


@pytest.mark.parametrize("size", [2_000, 2_030, 2_060, 2_090, 2_120, 2_150])
def test_growing_keys_fill_pages_wherever_a_page_ends(store: LmdbStore, size: int) -> None:
    """Which entries follow on the same page differs with the size. LMDB left half of these pages half full."""
    for epoch in range(1, 21):
        load(store, epoch, STATES, range((epoch - 1) * size, epoch * size))
    environment = store.shard(0).environment
    with environment.read() as txn:
        data = environment.databases["data"]
        content = sum(len(key) + len(stored) + 10 for key, stored in txn.cursor(data))
        assert content > 0.8 * txn.stat(data)["leaf_pages"] * PAGE


def test_random_changes_leave_few_free_pages(store: LmdbStore) -> None:
    """Each epoch changes nearly every page. In one transaction, two of three pages would be free at the end."""
    load(store, 1, STATES, range(COUNT), begins=True)
    churn(store, range(2, 12), COUNT // 20)
    sizes = store.sizes([])
    assert sizes.free < 0.45 * sizes.files


def test_a_file_stops_growing_if_the_number_of_entries_does(store: LmdbStore) -> None:
    load(store, 1, STATES, range(COUNT))
    churn(store, range(2, 12), COUNT // 10)
    settled = store.sizes([]).files
    churn(store, range(12, 42), COUNT // 10)
    assert store.sizes([]).files <= 1.05 * settled


def test_the_pages_of_a_dropped_state_are_used_again(store: LmdbStore) -> None:
    load(store, 1, STATES, range(COUNT))
    before = store.sizes([])
    store.drop_state(STATES[0])
    for epoch in (2, 3):  # LMDB reuses freed pages two transactions later
        load(store, epoch, STATES[1:2], range(COUNT + epoch, COUNT + epoch + 1))
    load(store, 4, (9,), range(COUNT))
    assert store.sizes([]).files <= 1.05 * before.files


def test_a_store_of_format_2_keeps_its_format(tmp_path: Path) -> None:
    """An earlier release can still read what is written: plain values, and undo chunks in one piece."""
    store = opened(tmp_path / "old", 2)
    load(store, 1, (5,), range(4_000))
    environment = store.shard(0).environment
    with environment.read() as txn:
        assert txn.get((5).to_bytes(4) + (77).to_bytes(8), db=environment.databases["data"]) == value(77)
        assert txn.stat(environment.databases["undo"])["entries"] == 2
        assert len(txn.get((5).to_bytes(4), db=environment.databases["marks"])) == 16
    with store.shard(0).at(1) as snapshot:
        assert snapshot.get_many(5, [(77).to_bytes(8)]) == {(77).to_bytes(8): value(77)}
    with store.shard(0).at(0) as snapshot:
        assert not any(snapshot.scan(5))
    assert store.sizes([]).states[5].bytes > 4_000 * (12 + 28)
    store.close()
