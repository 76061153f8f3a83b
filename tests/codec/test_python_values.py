"""Values of any nesting survive every way into a table bit by bit, and what does not fit is refused by its place."""

from __future__ import annotations

import datetime
from decimal import Decimal
from typing import Any

import numpy as np
import pandas as pd
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from strategies import KINDS, bits, values

from tailrace import types
from tailrace.codec import text
from tailrace.codec.convert import to_batch
from tailrace.codec.python_values import to_value
from tailrace.codec.schema import TableDef
from tailrace.errors import BadValue, NullKey
from tailrace.types import Column

DAY = datetime.date(2026, 1, 31)
MOMENT = datetime.datetime(2026, 1, 31, 12, 30)


def table(kind: str | pa.DataType) -> TableDef:
    name = kind if isinstance(kind, str) else types.name(kind)
    return TableDef(1, "t", (Column("id", "int"), Column("v", name)), ("id",))


def put(kind: str | pa.DataType, *given: Any) -> list[Any]:
    rows = [{"id": i, "v": value} for i, value in enumerate(given)]
    return list(to_batch(table(kind), rows).column("v").to_pylist())


@given(KINDS)
def test_the_text_of_a_type_is_parsed_back(kind: pa.DataType) -> None:
    assert types.arrow(types.name(kind)) == kind


@given(KINDS, st.data())
@settings(max_examples=150, deadline=None)
def test_python_values_are_stored_as_they_are(kind: pa.DataType, data: st.DataObject) -> None:
    given = data.draw(st.lists(values(kind), max_size=5))
    assert bits(put(kind, *given)) == bits(pa.array(given, kind).to_pylist())


@given(KINDS, st.data())
@settings(max_examples=150, deadline=None)
def test_arrow_values_are_stored_as_they_are(kind: pa.DataType, data: st.DataObject) -> None:
    column = pa.array(data.draw(st.lists(values(kind), max_size=5)), kind)
    cut = data.draw(st.integers(0, len(column)))
    for array in (column, column.slice(cut), _relaid(column)):
        rows = pa.table({"id": pa.array(range(len(array)), pa.int32()), "v": array})
        batch = to_batch(table(kind), rows)
        batch.validate(full=True)
        assert bits(batch.column("v").to_pylist()) == bits(array.to_pylist())


def _relaid(array: pa.Array) -> pa.Array:
    """The same values in another layout of Arrow, as other libraries write them."""
    kind = array.type
    return array.cast(pa.large_list(kind.value_type)) if pa.types.is_list(kind) else array


@given(KINDS, st.data())
@settings(max_examples=150, deadline=None)
def test_json_is_parsed_back_to_the_same_value(kind: pa.DataType, data: st.DataObject) -> None:
    value = pa.array([data.draw(values(kind))], kind).to_pylist()[0]
    columns = table(kind).columns
    row = text.row_from_json(text.from_json(text.to_json({"id": 1, "v": value})), columns)
    assert bits(to_batch(table(kind), [row]).column("v").to_pylist()) == bits([value])


@given(KINDS.filter(pa.types.is_nested), st.data())
@settings(max_examples=100, deadline=None)
def test_cells_of_csv_files_hold_json(kind: pa.DataType, data: st.DataObject) -> None:
    column = pa.array(data.draw(st.lists(values(kind), max_size=3)), kind)
    cells = pa.array([None if v is None else text.to_json(v) for v in column.to_pylist()], pa.string())
    assert bits(text.array_of(cells, "v", kind).to_pylist()) == bits(column.to_pylist())


def test_numpy_and_pandas_values() -> None:
    assert put("boolean", np.True_, None) == [True, None]
    assert put("smallint", np.int64(7), np.uint8(7), pd.NA, float("nan")) == [7, 7, None, None]
    assert put("double", np.float32(0.5), np.int8(3), pd.NA) == [0.5, 3.0, None]
    assert str(put("double", np.nan)[0]) == "nan"
    assert put("decimal(9,2)", np.float64(0.25), np.int32(4), np.nan) == [Decimal("0.25"), Decimal(4), None]
    assert put("string", np.str_("a"), pd.NA, np.nan) == ["a", None, None]
    assert put("binary", np.bytes_(b"a")) == [b"a"]
    assert put("date", np.datetime64(DAY), pd.Timestamp(DAY), pd.NaT, np.datetime64("NaT")) == [DAY, DAY, None, None]
    assert put("timestamp_ntz", np.datetime64(MOMENT), pd.Timestamp(MOMENT), pd.NaT) == [MOMENT, MOMENT, None]
    hour = datetime.timedelta(hours=1)
    intervals = (
        np.timedelta64(1, "h"),
        pd.Timedelta(hour),
        pd.NaT,
        "0 01:00:00",
        "INTERVAL '0 01:00:00' DAY TO SECOND",
    )
    assert put("interval day to second", *intervals) == [hour, hour, None, hour, hour]
    assert put("array<int>", np.array([1, 2]), [np.int64(3), pd.NA]) == [[1, 2], [3, None]]
    assert put("array<array<double>>", np.eye(2)) == [[[1.0, 0.0], [0.0, 1.0]]]


def test_a_pandas_frame() -> None:
    kind = "array<struct<x:int>>"
    frame = pd.DataFrame({"ID": [1, 2, 3], "v": pd.Series([[{"x": 1}], np.nan, [None]], dtype=object)})
    assert to_batch(table(kind), frame).to_pylist() == [
        {"id": 1, "v": [{"x": 1}]},
        {"id": 2, "v": None},
        {"id": 3, "v": [None]},
    ]
    integers = pd.DataFrame({"id": [1, 2], "v": [1.0, np.nan]})  # pandas makes floats of integers with a gap
    assert to_batch(table("bigint"), integers).column("v").to_pylist() == [1, None]
    mixed = pd.DataFrame({"id": [1, 2], "v": pd.Series([1, "x"], dtype=object)})
    with pytest.raises(BadValue, match="row 2, column 'v': 'x' does not fit BIGINT"):
        to_batch(table("bigint"), mixed)


BAD: list[tuple[str, Any, str]] = [
    ("array<int>", [1, "2"], "column 'v[1]': '2' does not fit INT"),
    ("array<int>", "12", "column 'v': '12' does not fit ARRAY<INT>"),
    ("array<int>", {1: 2}, "column 'v': {1: 2} does not fit ARRAY<INT>"),
    ("struct<A:int>", {"B": 1}, "column 'v': the field 'B' does not fit struct<A:int>"),
    ("struct<A:int>", [1], "column 'v': [1] does not fit struct<A:int>"),
    ("array<struct<A:array<date>>>", [{"a": ["soon"]}], "column 'v[0].A[0]': 'soon' does not fit DATE"),
    ("map<string,int>", {"k": "x"}, "column \"v['k']\": 'x' does not fit INT"),
    ("map<string,int>", {1: 1}, "column 'v (a key)': 1 does not fit STRING"),
    ("map<string,int>", [("k", 1), ("k", 2)], "column 'v': a second key 'k' does not fit MAP<STRING,INT>"),
    ("map<double,int>", [(0.0, 1), (-0.0, 2)], "column 'v': a second key -0.0 does not fit MAP<DOUBLE,INT>"),
    ("map<string,int>", [(None, 1)], "column 'v': a NULL key does not fit MAP<STRING,INT>"),
    ("map<string,int>", 5, "column 'v': 5 does not fit MAP<STRING,INT>"),
    ("interval day to second", "1 day", "column 'v': '1 day' does not fit INTERVAL DAY TO SECOND"),
    ("interval day to second", "0 24:00:00", "column 'v': '0 24:00:00' does not fit INTERVAL DAY TO SECOND"),
    ("interval day to second", 5, "column 'v': 5 does not fit INTERVAL DAY TO SECOND"),
    ("timestamp_ntz", np.datetime64(1, "ns"), "does not fit TIMESTAMP_NTZ"),
    ("boolean", np.int8(1), "does not fit BOOLEAN"),
    ("double", np.timedelta64(1, "s"), "does not fit DOUBLE"),
]


@pytest.mark.parametrize(("kind", "value", "says"), BAD, ids=[f"{b[0]} {b[1]}" for b in BAD])
def test_what_does_not_fit_is_named(kind: str, value: Any, says: str) -> None:
    with pytest.raises(BadValue) as caught:
        put(kind, None, value)
    assert str(caught.value).startswith("row 2, ")
    assert says in str(caught.value)


def test_arrow_parts_that_do_not_fit_are_named() -> None:
    longer = pa.table({"id": [1, 2], "v": pa.array([[1], [2**40]])})
    with pytest.raises(BadValue, match=r"row 2, column 'v\[0\]': 1099511627776 does not fit INT"):
        to_batch(table("array<int>"), longer)
    twice = pa.table({"id": [1], "v": pa.array([[("k", 1), ("k", 2)]], pa.map_(pa.string(), pa.int32()))})
    with pytest.raises(BadValue, match="row 1, column 'v': a second key 'k'"):
        to_batch(table("map<string,int>"), twice)
    other = pa.table({"id": [1], "v": pa.array([{"b": 1}])})
    with pytest.raises(BadValue, match="the field 'b'"):
        to_batch(table("struct<a:int>"), other)


def test_arrow_fields_are_found_by_name() -> None:
    given = pa.table({"id": [1, 2], "v": pa.array([{"B": "x", "A": 1}, None])})
    expected = [{"a": 1, "b": "x", "c": None}, None]
    assert to_batch(table("struct<a:int,b:string,c:date>"), given).column("v").to_pylist() == expected


def test_rows_are_counted_from_1() -> None:
    with pytest.raises(NullKey, match="row 2: key column 'id'"):
        to_batch(table("int"), [{"id": 1}, {"v": 1}])
    with pytest.raises(BadValue, match="row 1 is 7"):
        to_batch(table("int"), [7])  # type: ignore[list-item]
    with pytest.raises(BadValue, match="row 11, column 'v'"):
        to_batch(table("int"), [{"id": 1, "v": "x"}], first=11)


def test_intervals_as_text() -> None:
    kind = types.arrow("interval day to second")
    for length in (datetime.timedelta(days=-1, microseconds=1), datetime.timedelta(days=3, hours=2, seconds=1)):
        assert to_value(text.plain(length), kind) == length
    assert text.plain(-datetime.timedelta(hours=25, milliseconds=500)) == "-1 01:00:00.500000"
