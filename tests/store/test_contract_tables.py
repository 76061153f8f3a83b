"""The contract of a store: tables, their logs, cuts and positions."""

from __future__ import annotations

import threading
from typing import Any

import pyarrow as pa
import pytest
from stores import ITEMS, PAIRS, TEXTS, caught_up, delta, rows_at

from tailrace.codec.layouts import Layout, StoredColumn
from tailrace.codec.schema import TableDef
from tailrace.database.table import Table
from tailrace.errors import BadPosition, BadValue, NoSuchRow, NullKey, OffsetGap, TableAltered, UnknownColumn
from tailrace.store.base import LAYOUTS, Capability, Change, Cut, Past, Store


def test_put_get_scan(store: Store) -> None:
    items = Table(store, ITEMS)
    assert items.put({"id": 1, "tag": "x"}).operations == 1
    assert items.get(1) == {"id": 1, "tag": "x", "v": None}
    assert items.get(2) is None
    items.put_many([{"id": 2, "v": 5}, {"id": 3, "v": 6}, {"id": 2, "v": 7}])
    assert rows_at(store, None) == [(1, "x", None), (2, None, 7), (3, None, 6)]
    assert items.get_many([3, 9, 1]).to_pylist() == [items.get(3), items.get(1)]


def altered(store: Store, table: TableDef, layout: Layout) -> TableDef:
    changed = table.with_layout(layout)
    store.change_documents({LAYOUTS.at(table.id): layout, **store.altered_table(changed)[0]})
    return changed


def test_a_table_whose_layout_grows(store: Store) -> None:
    """Old rows and log entries have the defaults of new columns. Reads by an old definition see what it knows."""
    default = 7 if Capability.DEFAULTS in store.capabilities else None
    start = store.newest_cut()
    Table(store, ITEMS).put_many([{"id": 1, "tag": "x", "v": 1}, {"id": 2, "tag": "y", "v": 2}])
    middle = caught_up(store)
    added = StoredColumn("w", "int", None if default is None else str(default))
    grown = altered(store, ITEMS, Layout.of(ITEMS.columns).added((added,)))
    Table(store, grown).put_many([{"id": 2, "tag": "z", "v": 3, "w": 8}, {"id": 3}])
    end = caught_up(store)
    assert rows_at(store, None, grown) == [(1, "x", 1, default), (2, "z", 3, 8), (3, None, None, default)]
    assert rows_at(store, middle, grown) == [(1, "x", 1, default), (2, "y", 2, default)]
    assert rows_at(store, None) == [(1, "x", 1), (2, "z", 3), (3, None, None)]
    assert rows_at(store, middle) == [(1, "x", 1), (2, "y", 2)]
    assert delta(store, start, middle, grown) == [(1, "x", 1, default, 1), (2, "y", 2, default, 1)]
    assert len(delta(store, start, end)) == len(delta(store, start, end, grown)) == 5
    changes = [b for n in range(store.nodes) for _, _, b in store.history({1: ITEMS}, n, start, end)]
    assert {tuple(b.schema.names) for b in changes} == {("id", "tag", "v", "_weight")}
    key = ITEMS.keys.encode_one([2])
    assert grown.decode_one_if_known(store.get(ITEMS, [key], Past(middle))[key])["w"] == default


def test_a_write_for_another_layout_is_refused(store: Store) -> None:
    row = pa.RecordBatch.from_pylist([{"id": 1, "tag": "x", "v": 1}], schema=ITEMS.schema)
    layout = Layout.of(ITEMS.columns).changed(1, name="label")
    renamed = altered(store, ITEMS, layout)
    for change in (Change(ITEMS, "put", row), Change(ITEMS, "delete", row.select(["id"]))):
        with pytest.raises(TableAltered, match="'items'"):
            store.write([change])
    assert caught_up(store).operations == 0
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
    before = caught_up(store).operations
    with pytest.raises(NoSuchRow) as error:
        items.update_many([{"id": 1, "v": 3}, {"id": 4, "v": 3}])
    assert error.value.key == 4
    assert items.get(1) == {"id": 1, "tag": "x", "v": 2}
    assert caught_up(store).operations == before


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


BAD_ROWS: list[tuple[dict[str, Any], type[Exception]]] = [
    ({"id": "one"}, BadValue),
    ({"id": 2**31}, BadValue),
    ({"id": 1, "v": 1.5}, BadValue),
    ({"id": 1, "tag": 7}, BadValue),
    ({"tag": "x"}, NullKey),
    ({"id": 1, "nope": 1}, UnknownColumn),
]


def test_bad_rows_change_nothing(store: Store) -> None:
    items = Table(store, ITEMS)
    items.put({"id": 1, "tag": "kept"})
    before = caught_up(store).operations
    for row, error in BAD_ROWS:
        with pytest.raises(error):
            items.put_many([{"id": 8}, row])
        assert (caught_up(store).operations, rows_at(store, None)) == (before, [(1, "kept", None)]), row


def test_deltas_contain_before_and_after_images(store: Store) -> None:
    items = Table(store, ITEMS)
    start = store.newest_cut()
    items.put({"id": 1, "v": 1})
    store.catch_up()
    items.put({"id": 1, "v": 2})
    store.catch_up()
    items.delete(1)
    end = caught_up(store)
    assert delta(store, start, end) == sorted([(1, None, 1, 1), (1, None, 1, -1), (1, None, 2, 1), (1, None, 2, -1)])
    assert store.touched(start, end) == {ITEMS.id: 3}


def test_history_lists_the_changes_of_each_transaction_by_table(store: Store) -> None:
    items, pairs = Table(store, ITEMS), Table(store, PAIRS)
    items.put({"id": 1, "v": 5})
    pairs.put({"a": "x", "b": 1})
    start = caught_up(store)
    items.update({"id": 1, "v": 6})
    middle = caught_up(store)
    pairs.delete(("x", 1))
    end = caught_up(store)
    seen: list[tuple[Any, ...]] = []
    for node in range(store.nodes):
        for position, table, batch in store.history({1: ITEMS, 2: PAIRS}, node, start, end):
            assert end.covers(position)
            assert not start.covers(position)
            seen += [(middle.covers(position), table.name, *row.values()) for row in batch.to_pylist()]
    assert sorted(seen) == [
        (False, "pairs", "x", 1, None, -1),
        (True, "items", 1, None, 5, -1),
        (True, "items", 1, None, 6, 1),
    ]
    assert not [change for n in range(store.nodes) for change in store.history({}, n, start, end)]


def test_tables_are_readable_at_any_cut_in_the_log(store: Store) -> None:
    items = Table(store, ITEMS)
    states, cuts = [], []
    for step in range(6):
        items.put_many([{"id": i, "v": step} for i in range(step, step + 3)])
        items.delete(step - 1)
        states.append(rows_at(store, None))
        cuts.append(caught_up(store))
    assert [rows_at(store, cut) for cut in cuts] == states


def test_step_is_limited_by_rows_and_by_bytes(store: Store) -> None:
    Table(store, ITEMS).put_many([{"id": i, "tag": "x" * (1000 if i < 50 else 10), "v": i} for i in range(100)])
    store.catch_up()
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
        cuts.append(caught_up(store))
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
        store.catch_up()
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
    cut, rows = caught_up(store), rows_at(store, None)
    items.put_many([{"id": i, "v": 1} for i in range(5)])
    newest = caught_up(store)
    store.trim(cut)
    assert rows_at(store, cut) == rows
    assert len(delta(store, cut, newest)) == 10
    assert rows_at(store, newest) == rows_at(store, None)
    with pytest.raises(OffsetGap):
        delta(store, Cut(0, (0,) * store.nodes), cut)


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
    newest = caught_up(store)
    assert len(rows_at(store, None)) == len(rows_at(store, newest)) == newest.operations == 200
    if Capability.TRANSACTIONS in store.capabilities:
        assert newest.transaction == 200


def test_long_keys(store: Store) -> None:
    table = Table(store, TEXTS)
    names = ["x" * 600 + c for c in "abc"] + ["x" * 600, "y"]
    table.put_many([{"t": t, "v": i} for i, t in enumerate(names)])
    assert [table.get(t)["v"] for t in names] == [0, 1, 2, 3, 4]  # type: ignore[index]
    assert rows_at(store, caught_up(store), TEXTS) == rows_at(store, None, TEXTS)


def test_cuts_say_what_they_cover(store: Store) -> None:
    items = Table(store, ITEMS)
    before = store.newest_cut()
    written = items.put({"id": 1, "tag": "x", "v": 5})
    after = caught_up(store)
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
