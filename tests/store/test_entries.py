"""Entries of states in the forms of all formats: whatever is written and read, a store of format 2 gives the same.

Keys make templates of format 4 grow and shrink: keys of one length and of several, numbers that reach a new byte.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import HealthCheck, example, given, settings
from hypothesis import strategies as st

from tailrace import faults
from tailrace.codec.keys import KeyCodec, prefix_range
from tailrace.store.base import Write
from tailrace.store.lmdb.form import Form
from tailrace.store.lmdb.settings import FORMAT, OLDEST_FORMAT, Settings, create
from tailrace.store.lmdb.store import LmdbStore

FORMATS = range(OLDEST_FORMAT, FORMAT + 1)
codec = KeyCodec([pa.int64(), pa.string(), pa.int64()])
number = st.one_of(st.none(), st.integers(0, 3), st.integers(-300, 70_000), st.integers(-(2**63), 2**63 - 1))
column_key = st.tuples(number, st.sampled_from(["", "a", "ab", "b\0"]), st.integers(0, 300)).map(codec.encode_one)
number_key = st.integers(0, 70_000).map(lambda n: KeyCodec([pa.int64()]).encode_one([n]))
any_key = st.lists(st.sampled_from([0, 1, 128, 255]), max_size=5).map(bytes)
value = st.one_of(
    st.none(), st.integers(0, 70_000).map(lambda n: b"\1" + n.to_bytes(8, "little") + b"text"), st.binary()
)
epochs = st.sampled_from([column_key, number_key, any_key]).flatmap(
    lambda key: st.tuples(
        st.lists(st.dictionaries(key, value, max_size=90), min_size=1, max_size=5),
        st.lists(key, min_size=2, max_size=2),
    )
)


@pytest.fixture(scope="module")
def stores(tmp_path_factory: pytest.TempPathFactory) -> Iterator[list[LmdbStore]]:
    """One store of each format, with one shard each."""
    opened = []
    for format_ in FORMATS:
        path = tmp_path_factory.mktemp("entries") / "store"
        create(path, Settings(format=format_, nodes=1, shards=1, map_size=1 << 28, durable=False))
        opened.append(LmdbStore(path))
    yield opened
    for store in opened:
        store.close()


def apply(store: LmdbStore, epoch: int, state: int, olds: dict[bytes, bytes], news: dict[bytes, Any]) -> None:
    keys = list(news)
    write = Write.of(state, keys, [news[key] for key in keys], [olds.get(key) for key in keys])
    store.shard(0).apply(epoch, [write], 0)


def after(olds: dict[bytes, bytes], news: dict[bytes, Any]) -> dict[bytes, bytes]:
    return {key: value for key, value in {**olds, **news}.items() if value is not None}


def check(store: LmdbStore, epoch: int, state: int, entries: dict[bytes, bytes], asked: list[bytes]) -> None:
    """Compares all ways to read a state at an epoch with a dictionary."""
    keys = sorted({*entries, *asked})
    low, high = sorted(asked)
    prefixes = sorted({key[:cut] for key in keys for cut in (0, 3, len(key))})
    with store.shard(0).at(epoch) as snapshot:
        assert [e for run in snapshot.scan(state, size=7) for e in run] == sorted(entries.items())
        assert snapshot.get_many(state, keys) == entries
        assert {key: snapshot.get_many(state, [key]).get(key) for key in asked} == {k: entries.get(k) for k in asked}
        assert snapshot.values(state, pa.array(keys, pa.large_binary())) == [entries.get(key) for key in keys]
        within = sorted((key, value) for key, value in entries.items() if low <= key < high)
        assert [e for run in snapshot.scan(state, low, high) for e in run] == within
        assert list(snapshot.scan_back(state, low, high)) == within[::-1]
        assert list(snapshot.scan_back(state, low, None)) == sorted(e for e in entries.items() if e[0] >= low)[::-1]
        expected = [[entries[key] for key in sorted(entries) if key.startswith(prefix)] for prefix in prefixes]
        assert list(snapshot.under(state, prefixes)) == expected
        bounds = [prefix_range(prefix) for prefix in prefixes]
        assert [[v for run in snapshot.scan(state, *b) for _, v in run] for b in bounds] == expected


state_numbers = iter(range(3, 2**31, 2))  # the one after each is its neighbour


@settings(suppress_health_check=[HealthCheck.function_scoped_fixture], deadline=None)
@given(epochs)
@example(([{}, {b"": b"x"}, {b"\xff": b"y"}], [b"\xff\xff", b""]))
@example(([{b"\xff": b"x"}, {b"\xff\xff": b"y", b"\xff": None}], [b"\xff\0", b"\xff\xff\xff"]))
def test_every_format_reads_what_was_written(
    stores: list[LmdbStore], case: tuple[list[dict[bytes, Any]], list[bytes]]
) -> None:
    written, asked = case
    state = next(state_numbers)
    versions: list[dict[bytes, bytes]] = [{}]
    for epoch, news in enumerate(written, 1):
        for store in stores:
            apply(store, epoch, state, versions[-1], news)
            apply(store, 1, state + 1, {}, {b"neighbour": b"x"})
        versions.append(after(versions[-1], news))
    for store in stores:
        for epoch, entries in enumerate(versions):
            check(store, epoch, state, entries, asked)
        assert store.shard(0).roll_back(1, [state]) == []
        check(store, 1, state, versions[1], asked)
        store.drop_state(state)
        check(store, 0, state, {}, asked)


def stored_keys(store: LmdbStore, state: int) -> list[bytes]:
    environment, prefix = store.shard(0).environment, store.settings.form.prefix(state)
    with environment.read() as txn, txn.cursor(environment.databases["data"]) as cursor:
        return [bytes(key) for key, _ in cursor if bytes(key).startswith(prefix)]


def numbered(numbers: range) -> dict[bytes, bytes]:
    return {KeyCodec([pa.int64()]).encode_one([n]): b"value" for n in numbers}


def test_keys_of_format_4_have_the_bytes_that_differ(stores: list[LmdbStore]) -> None:
    *_, plain, short = stores
    state = 247  # the last one with a prefix of one byte
    contents: dict[bytes, bytes] = {}
    for epoch, (first, size) in enumerate(((0, 1), (200, 1), (300, 2), (70_000, 3)), 1):
        news = numbered(range(first, first + 50))
        for store in (plain, short):
            apply(store, epoch, state, contents, news)
        contents |= news
        assert {len(key) for key in stored_keys(plain, state)} == {4 + 9}
        assert {len(key) for key in stored_keys(short, state)} == {1 + size}


def test_a_process_that_dies_while_keys_are_stored_again(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The transaction that stores them again is that of the epoch: nothing of it is seen, and a retry makes it."""
    create(tmp_path / "store", Settings(nodes=1, shards=1, map_size=1 << 28, durable=False))
    store = LmdbStore(tmp_path / "store")
    first, second = numbered(range(200)), numbered(range(200, 400))
    apply(store, 1, 5, {}, first)
    before = stored_keys(store, 5)

    def die(point: str) -> None:
        raise KeyboardInterrupt(point)

    with monkeypatch.context() as patched:
        patched.setattr(faults, "point", die)
        with pytest.raises(KeyboardInterrupt):
            apply(store, 2, 5, first, second)
    assert stored_keys(store, 5) == before
    check(store, 1, 5, first, [b"", b"\2"])
    apply(store, 2, 5, first, second)
    assert {len(key) for key in stored_keys(store, 5)} == {3}
    for epoch, entries in ((1, first), (2, first | second)):
        check(store, epoch, 5, entries, [b"", b"\2"])
    store.close()


@given(st.integers(0, 2**32 - 1), st.integers(0, 2**32 - 1))
@example(247, 248)
@example(255, 256)
def test_prefixes_of_states_sort_as_states(one: int, other: int) -> None:
    for format_ in FORMATS:
        form = Form.of(format_)
        assert form.state_of(form.prefix(one) + b"key") == one
        assert (form.prefix(one) < form.prefix(other)) == (one < other)
        assert one == other or not form.prefix(one).startswith(form.prefix(other))
