"""Rows of all layouts of a table decode to the same values, in any mixture, by batch and one by one."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pyarrow as pa
import pytest

from tailrace.codec.layouts import Layout, StoredColumn
from tailrace.codec.schema import TableDef
from tailrace.errors import Corrupt, TableAltered
from tailrace.types import Column

COLUMNS = (Column("s", "string"), Column("id", "int"), Column("x", "double"))
ADDED = (
    StoredColumn("n", "bigint", "7"),
    StoredColumn("t", "string", "it's"),
    StoredColumn("d", "decimal(5,2)", "1.50"),
    StoredColumn("f", "float", "0.1"),
    StoredColumn("at", "timestamp", "2026-01-01T00:00:00+00:00"),
    StoredColumn("none", "date"),
)
FIRST = TableDef(1, "t", COLUMNS, ("id",))


def grown(table: TableDef, *columns: StoredColumn) -> TableDef:
    return table.with_layout((table.layout or Layout.of(table.columns)).added(columns))


def rows_of(table: TableDef, first: int, count: int) -> list[bytes]:
    values: list[dict[str, Any]] = [
        {"s": None if i % 3 == 0 else "x" * i, "id": i, "x": i / 2, "n": i * 10, "t": f"t{i}"}
        for i in range(first, first + count)
    ]
    batch = pa.RecordBatch.from_pylist(values, schema=table.schema)
    stored: list[bytes] = table.rows.encode(table.to_stored(batch)).to_pylist()
    return stored


def test_rows_of_the_first_layout_have_the_bytes_they_always_had() -> None:
    dropped = FIRST.with_layout(Layout.of(COLUMNS).changed(2, dropped=True))
    assert rows_of(replace(FIRST, layout=Layout.of(COLUMNS)), 0, 5) == rows_of(FIRST, 0, 5)
    assert len(rows_of(dropped, 0, 5)) == 5
    assert dropped.decode(rows_of(FIRST, 0, 5)).column(2).to_pylist() == [0.0, 0.5, 1.0, 1.5, 2.0]


def test_a_mixture_of_layouts_decodes_in_order() -> None:
    second = grown(FIRST, *ADDED[:1])
    third = grown(second, *ADDED[1:])
    rows = [*rows_of(third, 0, 2), *rows_of(FIRST, 2, 3), *rows_of(second, 5, 2), *rows_of(FIRST, 7, 1)]
    whole = third.decode(rows).to_pylist()
    assert [row["id"] for row in whole] == list(range(8))
    assert [row["n"] for row in whole] == [0, 10, 7, 7, 7, 50, 60, 7]
    assert [row["t"] for row in whole] == ["t0", "t1", *["it's"] * 6]
    assert [third.decode_one_if_known(row) for row in rows] == whole
    assert third.decode([]).num_rows == 0


def test_a_dropped_column_is_hidden_and_its_name_is_free() -> None:
    table = grown(FIRST, *ADDED[:2])
    assert table.layout is not None
    without = table.with_layout(table.layout.changed(3, dropped=True))
    again = grown(without, StoredColumn("n", "bigint", "8"))
    assert [c.name for c in again.columns] == ["s", "id", "x", "t", "n"]
    old, new = rows_of(table, 1, 1)[0], rows_of(again, 2, 1)
    assert again.decode_one_if_known(old) == {"s": "x", "id": 1, "x": 0.5, "t": "t1", "n": 8}
    assert again.decode(new).column(3).to_pylist() == [None]


@pytest.mark.parametrize("columns", [2, 9])
def test_a_key_at_any_position_marks_rows(columns: int) -> None:
    """The marker is in the null bits, which have several bytes in a wide table."""
    wide = (*(Column(f"c{i}", "int") for i in range(columns)), Column("id", "int"))
    first = TableDef(1, "t", wide, ("id",))
    second = grown(first, StoredColumn("n", "int", "5"))
    batch = pa.RecordBatch.from_pylist([{"id": 1}, {"id": 2, "c1": 3}], schema=first.schema)
    old = first.rows.encode(batch).to_pylist()
    new = second.rows.encode(pa.RecordBatch.from_pylist([{"id": 3, "n": 6}], schema=second.schema)).to_pylist()
    assert [(r["id"], r["n"]) for r in second.decode([*old, *new]).to_pylist()] == [(1, 5), (2, 5), (3, 6)]
    assert second.decode_one_if_known(new[0])["n"] == 6


def test_a_newer_row_is_noticed() -> None:
    second = grown(FIRST, *ADDED[:1])
    third = grown(second, *ADDED[1:2])
    for older, newer in ((FIRST, second), (FIRST, third), (second, third)):
        rows = [*rows_of(older, 0, 1), *rows_of(newer, 1, 1)]
        with pytest.raises(TableAltered):
            older.decode_if_known(rows)
        with pytest.raises(TableAltered):
            older.decode_one_if_known(rows[1])
        with pytest.raises(Corrupt, match="layout is unknown"):
            older.decode(rows)


def test_a_layout_that_cannot_be_is_refused() -> None:
    with pytest.raises(ValueError, match="default of column 'n'"):
        Layout((StoredColumn("id", "int"), StoredColumn("n", "int", "x")), 1)
    with pytest.raises(ValueError, match="number"):
        Layout((StoredColumn("id", "int"),), 2)
    with pytest.raises(ValueError, match="columns"):
        Layout((StoredColumn("id", "int"), StoredColumn("id", "int")), 1)
