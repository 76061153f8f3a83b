"""The mapping of a table to cells of HBase: what CREATE TABLE gives, and rows there and back."""

from __future__ import annotations

from typing import Any

import pyarrow as pa
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from strategies import SCALARS, present, values

from tailrace import types
from tailrace.codec.layouts import Layout, StoredColumn
from tailrace.codec.schema import TableDef
from tailrace.errors import BadCell, SqlError
from tailrace.store.hbase.mapping import (
    MappedTable,
    TableMapping,
    default_mapping,
    escape,
    given_mapping,
    grown,
    unescape,
)
from tailrace.types import Column

ORDERS = TableDef(1, "orders", (Column("id", "bigint"), Column("Cust", "int"), Column("note", "string")), ("id",))
TEXT = "id=:key, cust = f:cust#binary, note=g:n\\x2cote#string"


def test_a_given_mapping() -> None:
    mapping = given_mapping("ns:orders", TEXT, ORDERS, False)
    assert mapping.key_encoding == "binary"
    assert mapping.cells == ("", "f:cust#binary", "g:n\\x2cote#string")
    assert mapping.families == ("f", "g")
    mapped = MappedTable(mapping, ORDERS)
    assert mapped.positions == {b"f:cust": 1, b"g:n,ote": 2}
    batch = mapped.decode_rows(
        [(b"\0" * 7 + b"\5", {b"f:cust": (b"\0\0\0\7", 1)}), (bytes(8), {b"g:n,ote": (b"x", 2)})]
    )
    assert batch.to_pylist() == [{"id": 5, "Cust": 7, "note": None}, {"id": 0, "Cust": None, "note": "x"}]
    assert mapped.rows_of_keys([ORDERS.keys.encode_one([5])]) == [b"\0" * 7 + b"\5"]


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("id=:key, cust=f:cust", "no cell for column 'note'"),
        ("id=:key, cust=f:c, note=f:c", "maps two columns to"),
        ("id=:key, cust=f:c, note=f:_", "reserved"),
        ("id=f:id, cust=f:c, note=f:n", "'id' is in the primary key"),
        ("id=:key, cust=:key, note=f:n", "'Cust' is not in the primary key"),
        ("id=:key, cust=f:c#utf8, note=f:n", "is not family:qualifier#encoding"),
        ("id=:key, cust=c, note=f:n", "is not family:qualifier#encoding"),
        ("id=:key, cust, note=f:n", "is a list of"),
        ("id=:key#utf8, cust=f:c, note=f:n", "unknown encoding 'utf8'"),
        ("id=:key, cust=f:c, note=f:n, more=f:m", "no column of the table"),
    ],
)
def test_mappings_that_do_not_fit(text: str, message: str) -> None:
    with pytest.raises(SqlError, match=message):
        given_mapping("orders", text, ORDERS, False)


def test_row_keys_of_several_columns_are_ordered() -> None:
    pairs = TableDef(1, "pairs", (Column("a", "int"), Column("b", "int")), ("a", "b"))
    assert given_mapping("pairs", "a=:key, b=:key", pairs, False).key_encoding == "ordered"
    with pytest.raises(SqlError, match="several columns"):
        given_mapping("pairs", "a=:key#binary, b=:key#binary", pairs, False)


def test_nested_values_are_texts() -> None:
    table = TableDef(1, "t", (Column("id", "int"), Column("a", "array<int>")), ("id",))
    assert default_mapping("t", table).cells == ("", "f:a#string")
    with pytest.raises(SqlError, match="only the encoding string"):
        given_mapping("t", "id=:key, a=f:a#binary", table, False)


def test_no_added_column_gets_the_cell_of_another() -> None:
    mapping = default_mapping("ns:orders", ORDERS)
    layout = Layout.of(ORDERS.columns).changed(2, dropped=True).added((StoredColumn("note", "int"),))
    more = grown(mapping, ORDERS.with_layout(layout))
    assert more.cells == ("", "f:Cust#binary", "f:note#binary", "f:note_2#binary")
    assert grown(more, ORDERS.with_layout(layout)) == more


@given(st.binary(max_size=12))
def test_names_are_escaped(name: bytes) -> None:
    assert unescape(escape(name)) == name
    assert not set(escape(name)) & set(", #='")


def mapped(key: list[pa.DataType], cells: list[pa.DataType], key_encoding: Any) -> MappedTable:
    columns = [Column(f"k{i}", types.name(k)) for i, k in enumerate(key)]
    columns += [Column(f"v{i}", types.name(k)) for i, k in enumerate(cells)]
    table = TableDef(1, "t", tuple(columns), tuple(c.name for c in columns[: len(key)]))
    default = default_mapping("t", table)
    fields = {name: getattr(default, name) for name in default.__struct_fields__}
    return MappedTable(TableMapping(**{**fields, "key_encoding": key_encoding}), table)


@settings(deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(st.data())
def test_rows_come_back(data: st.DataObject) -> None:
    """Rows written as cells are read as the same rows, whatever the types of their columns."""
    encoding = data.draw(st.sampled_from(["ordered", "binary", "string"]))
    kinds = [k for k in SCALARS if encoding == "ordered" or not pa.types.is_floating(k)]
    key = data.draw(st.lists(st.sampled_from(kinds), min_size=1, max_size=3 if encoding == "ordered" else 1))
    cells = data.draw(st.lists(st.sampled_from(SCALARS), max_size=3))
    count = data.draw(st.integers(0, 4))
    table = mapped(key, cells, encoding)
    columns = [pa.array([data.draw(present(k)) for _ in range(count)], k) for k in key]
    columns += [pa.array([data.draw(values(k)) for _ in range(count)], k) for k in cells]
    rows = table.row_keys(columns[: len(key)]).to_pylist()
    encoded = [table.encode_column(len(key) + i, columns[len(key) + i]).to_pylist() for i in range(len(cells))]
    names = [cell.column for cell in table.cells if cell is not None]
    as_read = [
        (row, {name: (cell[i], 1) for name, cell in zip(names, encoded, strict=True) if cell[i] is not None})
        for i, row in enumerate(rows)
    ]
    batch = table.decode_rows(as_read)
    codec = table.table.rows
    expected = pa.RecordBatch.from_arrays(
        [*table.key_columns(pa.array(rows, pa.large_binary()))[0], *columns[len(key) :]],
        schema=table.table.stored_schema,
    )
    assert codec.encode(batch).equals(codec.encode(expected)) or encoding == "string"
    ordered = table.table.keys.encode(columns[: len(key)])
    assert table.table.keys.encode(table.table.key_columns(batch)).equals(ordered)
    assert table.rows_of_keys(ordered.to_pylist()) == rows


def test_bad_cells_and_keys_are_named() -> None:
    table = MappedTable(given_mapping("ns:orders", TEXT, ORDERS, False), ORDERS)
    with pytest.raises(BadCell) as error:
        table.decode_rows([(bytes(8), {}), (b"\0" * 7 + b"\1", {b"f:cust": (b"\0", 1)})])
    assert error.value.data == {
        "table": "ns:orders",
        "row": "\\x00\\x00\\x00\\x00\\x00\\x00\\x00\\x01",
        "column": "f:cust",
        "reason": "it is no INT in the encoding binary",
    }
    with pytest.raises(BadCell, match="the cell :key of row ab in"):
        table.decode_rows([(b"ab", {})])


def test_a_key_has_one_row() -> None:
    """Two texts of the same number would be two rows with one primary key: only one of them is a key."""
    table = mapped([pa.int32()], [], "string")
    _, bad = table.key_columns(pa.array([b"1", b"01", b" 1", b"x", b"-1"], pa.large_binary()))
    assert bad.tolist() == [False, True, True, True, False]
