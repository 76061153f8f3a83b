"""Values that do not fit into a cell of HBase: rows are divided, entries of views are refused before they count."""

from __future__ import annotations

import pytest
from foreign import ROWS, foreign_table, shown
from hbase_parts import new_parts
from hbase_stores import new_store
from thrift_client import Client

from tailrace.codec.schema import TableDef
from tailrace.errors import EntryTooLarge
from tailrace.store.base import Write
from tailrace.store.hbase.long_values import LARGEST, PIECE, join_value, split_value
from tailrace.types import Column
from tailrace_hbase.local_cluster import LocalCluster

MIB = 1 << 20


@pytest.mark.parametrize("size", [0, 1, PIECE, PIECE + 1, 3 * PIECE])
def test_pieces_of_a_value(size: int) -> None:
    value = bytes(i % 251 for i in range(1000)) * (size // 1000) + b"e" * (size % 1000)
    cells = {name: (piece, 7) for name, piece in split_value(b"v", value).items()}
    assert join_value(b"v", cells) == value
    assert max(len(piece) for piece, _ in cells.values()) <= PIECE


def test_pieces_of_an_older_value_do_not_count() -> None:
    old = {name: (piece, 7) for name, piece in split_value(b"v", b"x" * (2 * PIECE + 5)).items()}
    new = {name: (piece, 8) for name, piece in split_value(b"v", b"y" * (PIECE + 1)).items()}
    assert join_value(b"v", {**old, **new}) == b"y" * (PIECE + 1)
    assert join_value(b"v", {**old, b"v": (b"", 9)}) == b""


@pytest.mark.hbase
def test_rows_of_any_size_are_resolved(cluster: LocalCluster, client: Client) -> None:
    columns = (Column("id", "int"), Column("a", "string"), Column("b", "string"), Column("c", "string"))
    table = TableDef(9, "wide", columns, ("id",))
    mapped = "id=:key#binary, a=f:a#string, b=f:b#string, c=g:c#string"
    with new_store(cluster) as store, foreign_table(client) as name:
        client.put(name, ROWS[0], {"f:a": b"x" * (5 * MIB), "f:b": b"y" * (5 * MIB), "g:c": b"z" * MIB})
        store.change_documents(store.new_table(table, {"hbase.table": name, "hbase.columns": mapped}))
        store.catch_up()  # scans the table
        client.put(name, ROWS[1], {"f:a": b"small"})
        store.catch_up()
        long = store.newest_cut()
        expected = [(-1, "x" * (5 * MIB), "y" * (5 * MIB), "z" * MIB), (0, "small", None, None)]
        assert shown(store, long, table) == expected
        client.put(name, ROWS[0], {"f:a": b"1", "f:b": b"2"})
        store.catch_up()
        assert shown(store, store.newest_cut(), table) == [(-1, "1", "2", "z" * MIB), (0, "small", None, None)]
        assert shown(store, long, table) == expected


@pytest.mark.hbase
def test_an_entry_that_does_not_fit_is_refused_before_it_counts(cluster: LocalCluster) -> None:
    with new_parts(cluster.port) as parts:
        shard = parts.shard(0)
        writes = [Write.of(7, [b"a", b"b"], [b"1", bytes(LARGEST + 1)], [None, None])]
        with pytest.raises(EntryTooLarge) as error:
            shard.apply(1, writes, 0, 1)
        assert (error.value.key, error.value.size) == (b"b".hex(), LARGEST + 1)
        assert shard.apply(1, [Write.of(7, [b"a", b"b"], [b"1", bytes(LARGEST)], [None, None])], 0, 1)
        with shard.at(1) as seen:
            assert seen.get_many(7, [b"a", b"b"]) == {b"a": b"1", b"b": bytes(LARGEST)}
