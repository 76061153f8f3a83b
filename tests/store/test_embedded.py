"""What only the embedded store has: files, their sizes, and their failures."""

from __future__ import annotations

from pathlib import Path

import pytest
from stores import ITEMS, PAIRS, delta, embedded, rows_at

from tailrace.database.table import Table
from tailrace.errors import Corrupt, NewerFormat, NotAStore, OlderFormat, StoreFull
from tailrace.store.base import Write
from tailrace.store.lmdb import settings
from tailrace.store.lmdb.store import LmdbStore


def test_a_full_map_raises_store_full_and_keeps_earlier_rows(tmp_path: Path) -> None:
    settings.create(tmp_path / "s", settings.Settings(map_size=1 << 20))
    store = LmdbStore(tmp_path / "s")
    items = Table(store, ITEMS)
    items.put({"id": 1, "tag": "kept"})
    with pytest.raises(StoreFull):
        items.put_many([{"id": i, "tag": "x" * 400} for i in range(10_000)])
    assert rows_at(store, None) == [(1, "kept", None)]
    items.put({"id": 2})
    store.close()


def test_a_damaged_log_entry_raises_corrupt_and_is_named(tmp_path: Path) -> None:
    settings.create(tmp_path / "s", settings.Settings(nodes=1, shards=1, map_size=1 << 26))
    store = LmdbStore(tmp_path / "s")
    start = store.newest_cut()
    Table(store, ITEMS).put_many([{"id": i, "v": i} for i in range(10)])
    with store.environment.write() as txn, txn.cursor(store.environment.databases["log"]) as cursor:
        assert cursor.first()
        key, value = cursor.item()
        flipped = bytearray(value)
        flipped[len(flipped) // 2] ^= 1
        txn.put(key, bytes(flipped), db=store.environment.databases["log"])
    with pytest.raises(Corrupt) as error:
        delta(store, start, store.newest_cut())
    assert error.value.where == "log entry 0 of node 0"
    store.close()


def test_directories_that_are_not_readable_stores(tmp_path: Path) -> None:
    with pytest.raises(NotAStore):
        settings.read_settings(tmp_path / "absent")
    (tmp_path / "file").write_text("x")
    with pytest.raises(NotAStore):
        settings.read_settings(tmp_path / "file")
    with pytest.raises(NotAStore):
        settings.read_settings(tmp_path)
    (tmp_path / "store.json").write_text('{"format": 99}')
    with pytest.raises(NewerFormat):
        settings.read_settings(tmp_path)
    (tmp_path / "store.json").write_text('{"format": 1}')
    with pytest.raises(OlderFormat):
        settings.read_settings(tmp_path)


def test_store_files_are_private(tmp_path: Path) -> None:
    store = embedded(tmp_path / "s")
    store.shard(0)
    for path in [tmp_path / "s", *(tmp_path / "s").rglob("*")]:
        assert path.stat().st_mode & 0o077 == 0, path
    store.close()


def test_sizes_follow_what_is_stored(tmp_path: Path) -> None:
    store = embedded(tmp_path / "s")
    empty = store.sizes([ITEMS, PAIRS])
    assert [extent[:2] for extent in empty.tables.values()] == [(0, 0), (0, 0)]
    assert (empty.states, empty.log) == ({}, 0)
    Table(store, ITEMS).put_many([{"id": i, "tag": f"{i * 7:05}" * 10, "v": i} for i in range(4_000)])
    Table(store, PAIRS).put_many([{"a": f"{i * 7:05}" * 10, "b": i, "v": 0.5} for i in range(1_000)])
    keys = [b"%06d" % i for i in range(6_000)]
    shard = store.shard(0)
    shard.apply(1, [Write.of(n, keys[:m], keys[:m], [None] * m) for n, m in ((7, 6_000), (9, 2_000))], 0)
    full = store.sizes([ITEMS, PAIRS])
    assert {table: extent.entries for table, extent in full.tables.items()} == {1: 4_000, 2: 1_000}
    assert {state: (extent.entries, extent.exact) for state, extent in full.states.items()} == {
        7: (6_000, True),
        9: (2_000, True),
    }
    assert 2 < full.tables[1].bytes / full.tables[2].bytes < 3  # rows of the second table have longer keys
    assert 2.5 < full.states[7].bytes / full.states[9].bytes < 3.5
    assert full.log > 4_000 * 50
    assert full.undo > empty.undo
    shard.apply(2, [Write.of(7, keys[3_000:], [None] * 3_000, keys[3_000:])], 1)
    store.drop_state(9)
    store.trim(store.newest_cut())
    emptier = store.sizes([ITEMS, PAIRS])
    assert {state: extent.entries for state, extent in emptier.states.items()} == {7: 3_000}
    assert emptier.log == 0
    assert emptier.free > full.free
    assert emptier.files >= full.files
    store.close()
