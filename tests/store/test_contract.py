"""The contract of a store. Add a new implementation to `STORES`; it must pass all tests here."""

from __future__ import annotations

import random
import threading
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from tailrace.codec.layouts import Layout, StoredColumn
from tailrace.codec.schema import TableDef
from tailrace.database.table import Table
from tailrace.errors import (
    BadPosition,
    BadValue,
    Corrupt,
    NewerFormat,
    NoSuchRow,
    NotAStore,
    NullKey,
    OffsetGap,
    OlderFormat,
    SnapshotGone,
    StoreFull,
    TableAltered,
    UnknownColumn,
)
from tailrace.store.base import LAYOUTS, Change, Cut, Past, Store, Write
from tailrace.store.documents import Kind
from tailrace.store.lmdb import settings
from tailrace.store.lmdb.store import LmdbStore
from tailrace.types import Column

ITEMS = TableDef(1, "items", (Column("id", "int"), Column("tag", "string"), Column("v", "bigint")), ("id",))
PAIRS = TableDef(2, "pairs", (Column("a", "string"), Column("b", "int"), Column("v", "double")), ("a", "b"))


def embedded(path: Path) -> Store:
    settings.create(path, settings.Settings(map_size=1 << 28))
    return LmdbStore(path)


STORES: dict[str, Callable[[Path], Store]] = {"lmdb": embedded}


@pytest.fixture(params=list(STORES))
def store(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Store]:
    opened = STORES[request.param](tmp_path / "store")
    yield opened
    opened.close()


def rows_at(store: Store, cut: Cut | None, table: TableDef = ITEMS) -> list[tuple[Any, ...]]:
    everything = range(len(table.columns))
    batches = (b for n in range(store.nodes) for b in store.rows(table, n, cut, everything))
    return sorted(tuple(row.values()) for b in batches for row in b.to_pylist())


def delta(store: Store, start: Cut, end: Cut, table: TableDef = ITEMS) -> list[tuple[Any, ...]]:
    everything = range(len(table.columns))
    batches = (b for n in range(store.nodes) for b in store.deltas(table, n, start, end, everything))
    return sorted(tuple(row.values()) for b in batches for row in b.to_pylist())


def test_put_get_scan(store: Store) -> None:
    items = Table(store, ITEMS)
    assert items.put({"id": 1, "tag": "x"}).operations == 1
    assert items.get(1) == {"id": 1, "tag": "x", "v": None}
    assert items.get(2) is None
    items.put_many([{"id": 2, "v": 5}, {"id": 3, "v": 6}, {"id": 2, "v": 7}])
    assert rows_at(store, None) == [(1, "x", None), (2, None, 7), (3, None, 6)]
    assert items.get_many([3, 9, 1]).to_pylist() == [items.get(3), items.get(1)]


def altered(store: Store, table: TableDef, layout: Layout) -> TableDef:
    store.change_documents({LAYOUTS.at(table.id): layout})
    return table.with_layout(layout)


def test_a_table_whose_layout_grows(store: Store) -> None:
    """Old rows and log entries have the defaults of new columns. Reads by an old definition see what it knows."""
    start = store.newest_cut()
    Table(store, ITEMS).put_many([{"id": 1, "tag": "x", "v": 1}, {"id": 2, "tag": "y", "v": 2}])
    middle = store.newest_cut()
    grown = altered(store, ITEMS, Layout.of(ITEMS.columns).added((StoredColumn("w", "int", "7"),)))
    Table(store, grown).put_many([{"id": 2, "tag": "z", "v": 3, "w": 8}, {"id": 3}])
    end = store.newest_cut()
    assert rows_at(store, None, grown) == [(1, "x", 1, 7), (2, "z", 3, 8), (3, None, None, 7)]
    assert rows_at(store, middle, grown) == [(1, "x", 1, 7), (2, "y", 2, 7)]
    assert rows_at(store, None) == [(1, "x", 1), (2, "z", 3), (3, None, None)]
    assert rows_at(store, middle) == [(1, "x", 1), (2, "y", 2)]
    assert delta(store, start, end, grown)[:2] == [(1, "x", 1, 7, 1), (2, "y", 2, 7, -1)]
    assert len(delta(store, start, end)) == len(delta(store, start, end, grown)) == 5
    changes = [b for n in range(store.nodes) for _, _, b in store.history({1: ITEMS}, n, start, end)]
    assert {tuple(b.schema.names) for b in changes} == {("id", "tag", "v", "_weight")}
    key = ITEMS.keys.encode_one([2])
    assert grown.decode_one_if_known(store.get(ITEMS, [key], Past(middle))[key])["w"] == 7


def test_a_write_for_another_layout_is_refused(store: Store) -> None:
    row = pa.RecordBatch.from_pylist([{"id": 1, "tag": "x", "v": 1}], schema=ITEMS.schema)
    layout = Layout.of(ITEMS.columns).changed(1, name="label")
    renamed = altered(store, ITEMS, layout)
    for change in (Change(ITEMS, "put", row), Change(ITEMS, "delete", row.select(["id"]))):
        with pytest.raises(TableAltered, match="'items'"):
            store.write([change])
    assert store.newest_cut().transaction == 0
    Table(store, renamed).put({"id": 1, "label": "x"})
    dropped = altered(store, ITEMS, layout.changed(1, dropped=True))
    with pytest.raises(TableAltered):
        store.write([Change(renamed, "put", row.rename_columns(["id", "label", "v"]))])
    Table(store, dropped).update({"id": 1, "v": 5})
    assert Table(store, dropped).get(1) == {"id": 1, "v": 5}
    assert rows_at(store, None) == [(1, None, 5)]


def test_update_is_partial_and_needs_the_row(store: Store) -> None:
    items = Table(store, ITEMS)
    items.put({"id": 1, "tag": "x", "v": 1})
    items.update({"id": 1, "v": 2})
    assert items.get(1) == {"id": 1, "tag": "x", "v": 2}
    before = store.newest_cut()
    with pytest.raises(NoSuchRow) as error:
        items.update_many([{"id": 1, "v": 3}, {"id": 4, "v": 3}])
    assert error.value.key == 4
    assert items.get(1) == {"id": 1, "tag": "x", "v": 2}
    assert store.newest_cut() == before


def test_delete_ignores_missing_rows(store: Store) -> None:
    items = Table(store, ITEMS)
    items.put_many([{"id": i} for i in range(5)])
    assert items.delete_many([1, 3, 99]).operations == 2
    assert items.delete(99).operations == 0
    assert [r[0] for r in rows_at(store, None)] == [0, 2, 4]


def test_composite_keys(store: Store) -> None:
    pairs = Table(store, PAIRS)
    pairs.put_many([{"a": "x\x00", "b": 1, "v": 0.5}, {"a": "x", "b": 1, "v": 1.5}])
    assert pairs.get(("x", 1)) == {"a": "x", "b": 1, "v": 1.5}
    pairs.delete(("x", 1))
    assert rows_at(store, None, PAIRS) == [("x\x00", 1, 0.5)]


@pytest.mark.parametrize(
    ("row", "error"),
    [
        ({"id": "one"}, BadValue),
        ({"id": 2**31}, BadValue),
        ({"id": 1, "v": 1.5}, BadValue),
        ({"id": 1, "tag": 7}, BadValue),
        ({"tag": "x"}, NullKey),
        ({"id": 1, "nope": 1}, UnknownColumn),
    ],
)
def test_bad_rows_change_nothing(store: Store, row: dict[str, Any], error: type[Exception]) -> None:
    items = Table(store, ITEMS)
    items.put({"id": 1, "tag": "kept"})
    before = store.newest_cut()
    with pytest.raises(error):
        items.put_many([{"id": 8}, row])
    assert (store.newest_cut(), rows_at(store, None)) == (before, [(1, "kept", None)])


def test_deltas_contain_before_and_after_images(store: Store) -> None:
    items = Table(store, ITEMS)
    start = store.newest_cut()
    items.put({"id": 1, "v": 1})
    items.put({"id": 1, "v": 2})
    items.delete(1)
    end = store.newest_cut()
    assert delta(store, start, end) == sorted([(1, None, 1, 1), (1, None, 1, -1), (1, None, 2, 1), (1, None, 2, -1)])
    assert store.touched(start, end) == {ITEMS.id: 3}


def test_history_lists_the_changes_of_each_transaction_by_table(store: Store) -> None:
    items, pairs = Table(store, ITEMS), Table(store, PAIRS)
    items.put({"id": 1, "v": 5})
    pairs.put({"a": "x", "b": 1})
    start = store.newest_cut()
    items.update({"id": 1, "v": 6})
    pairs.delete(("x", 1))
    end = store.newest_cut()
    seen: list[tuple[Any, ...]] = []
    for node in range(store.nodes):
        for position, table, batch in store.history({1: ITEMS, 2: PAIRS}, node, start, end):
            seen += [(position.number, table.name, *row.values()) for row in batch.to_pylist()]
    assert sorted(seen) == [
        (3, "items", 1, None, 5, -1),
        (3, "items", 1, None, 6, 1),
        (4, "pairs", "x", 1, None, -1),
    ]
    assert not [change for n in range(store.nodes) for change in store.history({}, n, start, end)]


def test_tables_are_readable_at_any_cut_in_the_log(store: Store) -> None:
    items = Table(store, ITEMS)
    states, cuts = [], []
    for step in range(6):
        items.put_many([{"id": i, "v": step} for i in range(step, step + 3)])
        items.delete(step - 1)
        states.append(rows_at(store, None))
        cuts.append(store.newest_cut())
    assert [rows_at(store, cut) for cut in cuts] == states


def test_step_is_limited_by_rows_and_by_bytes(store: Store) -> None:
    Table(store, ITEMS).put_many([{"id": i, "tag": "x" * (1000 if i < 50 else 10), "v": i} for i in range(100)])
    for node in range(store.nodes):
        total = sum(b.num_rows for b in store.rows(ITEMS, node, None, [0]))
        for count, size in ((7, 1 << 30), (1000, 5_000), (1000, 1)):
            after, passed = b"", []
            while True:
                key, rows = store.step(ITEMS, node, after, count, size)
                between = list(store.rows(ITEMS, node, None, [1], after=after, upto=key))
                assert sum(b.num_rows for b in between) == rows <= count
                assert rows == 1 or sum(len(t) for b in between for t in b.column(0).to_pylist()) <= size
                passed.append(rows)
                if key is None:
                    break
                after = key
            assert sum(passed) == total
        assert store.step(ITEMS, node, b"", total, 1 << 30) == (None, total)


def test_get_reads_rows_by_key_at_any_cut_in_the_log(store: Store) -> None:
    items = Table(store, ITEMS)
    cuts, states = [store.newest_cut()], [rows_at(store, None)]
    pasts = [Past(cuts[0])]
    keys = [ITEMS.keys.encode_one([i]) for i in range(12)]
    for step in range(6):
        items.put_many([{"id": i, "v": step} for i in range(step, step + 3)])
        Table(store, PAIRS).put({"a": "x", "b": step})
        items.delete(step - 1)
        items.put({"id": step - 1, "tag": "again"}) if step % 2 else None
        cuts.append(store.newest_cut())
        states.append(rows_at(store, None))
        pasts.append(Past(cuts[-1]))
        for past, state in zip(pasts, states, strict=True):  # a Past remembers changes between reads
            rows = store.get(ITEMS, keys, past)
            decoded = ITEMS.rows.decode([rows[k] for k in keys if k in rows]).to_pylist()
            assert sorted(tuple(row.values()) for row in decoded) == state


def test_cuts_never_split_a_transaction(store: Store) -> None:
    items = Table(store, ITEMS)
    start = store.newest_cut()
    for size in (3, 5, 2, 7):
        items.put_many([{"id": size * 10 + i} for i in range(size)])
    taken = []
    cut = start
    while (following := store.cut_after(cut, 6)) != cut:
        taken.append(following.operations - cut.operations)
        cut = following
    assert taken == [3, 5, 2, 7]
    assert cut == store.newest_cut()


def test_trim_keeps_log_entries_after_the_cut(store: Store) -> None:
    items = Table(store, ITEMS)
    items.put_many([{"id": i, "v": 0} for i in range(10)])
    cut, rows = store.newest_cut(), rows_at(store, None)
    items.put_many([{"id": i, "v": 1} for i in range(5)])
    store.trim(cut)
    assert rows_at(store, cut) == rows
    assert len(delta(store, cut, store.newest_cut())) == 10
    with pytest.raises(OffsetGap):
        delta(store, Cut(0, (0,) * store.nodes), cut)


def test_documents(store: Store) -> None:
    many: Kind[dict[str, int]] = Kind("test:", dict[str, int])
    one: Kind[int] = Kind("test", int)
    store.change_documents({many.at(1): {"x": 1}, many.at(2): {}, one.name: 3})
    assert store.documents(many) == {"1": {"x": 1}, "2": {}}
    store.change_documents({many.at(1): None})
    assert (store.document(many, 1), store.document(many, 2), store.document(one)) == (None, {}, 3)


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


def test_sizes_follow_what_is_stored(store: Store) -> None:
    empty = store.sizes([ITEMS, PAIRS])
    assert [extent[:2] for extent in empty.tables.values()] == [(0, 0), (0, 0)]
    assert (empty.states, empty.log) == ({}, 0)
    Table(store, ITEMS).put_many([{"id": i, "tag": "x" * 50, "v": i} for i in range(4_000)])
    Table(store, PAIRS).put_many([{"a": "x" * 50, "b": i, "v": 0.5} for i in range(1_000)])
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


def test_writers_in_many_threads_lose_nothing(store: Store) -> None:
    items = Table(store, ITEMS)

    def write(thread: int) -> None:
        for i in range(50):
            items.put({"id": thread * 1000 + i, "v": i})

    threads = [threading.Thread(target=write, args=(t,)) for t in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(rows_at(store, None)) == 200
    assert store.newest_cut().transaction == 200


def test_long_keys(store: Store) -> None:
    texts = TableDef(5, "texts", (Column("t", "string"), Column("v", "int")), ("t",))
    table = Table(store, texts)
    names = ["x" * 600 + c for c in "abc"] + ["x" * 600, "y"]
    table.put_many([{"t": t, "v": i} for i, t in enumerate(names)])
    assert [table.get(t)["v"] for t in names] == [0, 1, 2, 3, 4]  # type: ignore[index]
    assert rows_at(store, store.newest_cut(), texts) == rows_at(store, None, texts)


# Failures of the embedded store


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


def test_cuts_say_what_they_cover(store: Store) -> None:
    items = Table(store, ITEMS)
    before = store.newest_cut()
    written = items.put({"id": 1, "tag": "x", "v": 5})
    after = store.newest_cut()
    assert before.is_before(after)
    assert not after.is_before(after)
    assert after.covers(written.position)
    assert not before.covers(written.position)
    assert after.covers(before.position)
    assert store.written_after(before) is not None
    assert store.written_after(after) is None


def test_positions_are_those_that_writes_returned(store: Store) -> None:
    written = Table(store, ITEMS).put({"id": 1, "tag": "x", "v": 5})
    for given in (written, written.position, written.position.number):
        assert store.position(given) == written.position
    for wrong in (written.position.number + 1, -1, "1"):
        with pytest.raises(BadPosition):
            store.position(wrong)  # type: ignore[arg-type]
