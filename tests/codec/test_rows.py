"""Rows decode to the same bits, identical rows have identical bytes, and damaged rows are reported as Corrupt."""

from __future__ import annotations

from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from strategies import KINDS, NESTED, SCALARS, bits, columns, tuples, values

from tailrace.codec.rows import RowCodec
from tailrace.errors import Corrupt, Unsupported

some_types = st.lists(st.sampled_from(SCALARS + NESTED) | KINDS, max_size=8)


def schema(kinds: list[pa.DataType]) -> pa.Schema:
    return pa.schema([pa.field(f"c{i}", kind) for i, kind in enumerate(kinds)])


def table(kinds: list[pa.DataType], rows: list[tuple[Any, ...]]) -> pa.RecordBatch:
    if not kinds:
        return RowCodec(pa.schema([])).decode([b""] * len(rows))
    return pa.RecordBatch.from_arrays(columns(kinds, rows), schema=schema(kinds))


@pytest.mark.parametrize("kind", SCALARS + NESTED, ids=str)
@given(data=st.data())
@settings(max_examples=30, deadline=None)
def test_round_trip_of_each_type(kind: pa.DataType, data: st.DataObject) -> None:
    batch = table([kind], data.draw(tuples([kind])))
    decoded = RowCodec(batch.schema).decode(RowCodec(batch.schema).encode(batch))
    decoded.validate(full=True)
    assert bits(decoded.to_pylist()) == bits(batch.to_pylist())


@given(st.data())
@settings(max_examples=200, deadline=None)
def test_round_trip(data: st.DataObject) -> None:
    kinds = data.draw(some_types)
    rows = data.draw(tuples(kinds))
    batch = table(kinds, rows)
    codec = RowCodec(batch.schema)
    encoded = codec.encode(batch)
    for form in (encoded, encoded.cast(pa.binary()), encoded.to_pylist()):
        decoded = codec.decode(form)
        decoded.validate(full=True)
        assert decoded.schema == batch.schema
        assert decoded.num_rows == len(rows)
        assert bits(decoded.to_pylist()) == bits(batch.to_pylist())
        assert codec.encode(decoded) == encoded


@given(st.data())
@settings(max_examples=200, deadline=None)
def test_one_row_decodes_like_a_batch(data: st.DataObject) -> None:
    kinds = data.draw(some_types)
    batch = table(kinds, data.draw(tuples(kinds)))
    codec = RowCodec(batch.schema)
    encoded = codec.encode(batch)
    whole = codec.decode(encoded).to_pylist()
    for row, expected in zip(encoded.to_pylist(), whole, strict=True):
        assert bits(codec.decode_one(row)) == bits(expected)
        assert bits(codec.decode_one(memoryview(row))) == bits(expected)


@given(st.data())
@settings(max_examples=100, deadline=None)
def test_slices_and_chunks_make_no_difference(data: st.DataObject) -> None:
    kinds = data.draw(st.lists(st.sampled_from(SCALARS + NESTED), min_size=1, max_size=5))
    batch = table(kinds, data.draw(tuples(kinds)))
    cut = data.draw(st.integers(0, len(batch)))
    codec = RowCodec(batch.schema)
    encoded = codec.encode(batch)
    assert codec.encode(batch.slice(cut)).equals(encoded.slice(cut))
    assert codec.encode(pa.Table.from_batches([batch.slice(0, cut), batch.slice(cut)])).equals(encoded)
    assert bits(codec.decode(encoded.slice(cut)).to_pylist()) == bits(batch.slice(cut).to_pylist())


def test_every_bit_of_a_float_is_kept() -> None:
    words = np.array([0, 1 << 63, 0x7FF8 << 48, 0xFFF8 << 48, (0x7FF8 << 48) + 5, 0x7FF << 52, 1], "<u8")
    batch = pa.record_batch({"x": pa.array(words.view("<f8"), from_pandas=False)})
    codec = RowCodec(batch.schema)
    decoded = codec.decode(codec.encode(batch)).column(0)
    assert decoded.null_count == 0
    assert decoded.to_numpy().view("<u8").tolist() == words.tolist()


def test_bytes_under_a_null_are_not_part_of_the_row() -> None:
    second = pa.py_buffer(b"\2")
    edges = pa.py_buffer(np.array([0, 2, 3], "<i4"))
    numbers = pa.array([7, 8, 9], pa.int64())
    hidden = {
        "n": pa.Array.from_buffers(pa.int64(), 2, [second, pa.py_buffer(np.array([7, 8]))]),
        "s": pa.Array.from_buffers(pa.string(), 2, [second, edges, pa.py_buffer(b"abc")]),
        "l": pa.Array.from_buffers(pa.list_(pa.int64()), 2, [second, edges], children=[numbers]),
        "t": pa.Array.from_buffers(pa.struct({"n": pa.int64()}), 2, [second], children=[numbers[:2]]),
    }
    batch = pa.record_batch(hidden)
    clean = pa.RecordBatch.from_pylist(batch.to_pylist(), batch.schema)
    assert clean.column("l").to_pylist() == [None, [9]]
    codec = RowCodec(batch.schema)
    assert codec.encode(batch).to_pylist() == codec.encode(clean).to_pylist()


@pytest.mark.parametrize("kind", [pa.large_string(), pa.string_view(), pa.large_binary(), pa.binary()], ids=str)
def test_layouts_of_strings(kind: pa.DataType) -> None:
    texts = pa.array(["a", None, "é\0", ""])
    codec = RowCodec(pa.schema({"s": pa.string()}))
    assert codec.encode(pa.table({"s": texts.cast(kind)})) == codec.encode(pa.table({"s": texts}))
    if not pa.types.is_string_view(kind):
        exact = RowCodec(pa.schema({"s": kind}))
        assert exact.decode(exact.encode(pa.table({"s": texts}))).column(0).equals(texts.cast(kind))


def test_columns_are_found_by_name() -> None:
    codec = RowCodec(pa.schema({"a": pa.int64(), "b": pa.int64()}))
    reordered = pa.table({"b": [2], "more": [3], "a": [1]})
    assert codec.decode(codec.encode(reordered)).to_pylist() == [{"a": 1, "b": 2}]


def test_schema_metadata_and_nullability_are_kept() -> None:
    exact = pa.schema([pa.field("a", pa.int64(), nullable=False)], metadata={"k": "v"})
    codec = RowCodec(exact)
    decoded = codec.decode(codec.encode(pa.table({"a": [1]})))
    assert decoded.schema.equals(exact, check_metadata=True)


def test_types_that_cannot_be_stored_are_refused() -> None:
    with pytest.raises(Unsupported):
        RowCodec(pa.schema({"a": pa.list_(pa.timestamp("ns"))}))


DAMAGED = pa.schema(
    {
        "n": pa.int64(),
        "s": pa.string(),
        "b": pa.binary(),
        "l": pa.list_(pa.string()),
        "f": pa.list_(pa.int32()),
        "t": pa.struct({"x": pa.bool_(), "y": pa.string()}),
        "m": pa.map_(pa.string(), pa.list_(pa.float64())),
    }
)
damaged_row = st.fixed_dictionaries({field.name: values(field.type) for field in DAMAGED})


def outcome(codec: RowCodec, row: bytes) -> Any:
    """The row decoded by `decode`, or None if it is damaged. Asserts that `decode_one` agrees."""
    try:
        batch = codec.decode([row])
    except Corrupt:
        with pytest.raises(Corrupt) as caught:
            codec.decode_one(row)
        assert caught.value.where == "a stored row"
        return None
    batch.validate(full=True)
    assert bits(codec.decode_one(row)) == bits(batch.to_pylist()[0])
    return batch


@given(damaged_row, st.data())
@settings(max_examples=200, deadline=None)
def test_a_row_that_is_too_short_or_too_long_is_corrupt(values: dict[str, Any], data: st.DataObject) -> None:
    codec = RowCodec(DAMAGED)
    [row] = codec.encode(pa.RecordBatch.from_pylist([values], DAMAGED)).to_pylist()
    assert outcome(codec, row) is not None
    assert outcome(codec, row[: data.draw(st.integers(0, len(row) - 1))]) is None
    assert outcome(codec, row + data.draw(st.binary(min_size=1, max_size=5))) is None


@given(damaged_row, st.data())
@settings(max_examples=500, deadline=None)
def test_changed_bytes_are_corrupt_or_decode_to_valid_values(values: dict[str, Any], data: st.DataObject) -> None:
    codec = RowCodec(DAMAGED)
    [row] = codec.encode(pa.RecordBatch.from_pylist([values], DAMAGED)).to_pylist()
    broken = bytearray(row)
    for position in data.draw(st.lists(st.integers(0, len(row) - 1), min_size=1, max_size=3)):
        broken[position] = data.draw(st.integers(0, 255))
    outcome(codec, bytes(broken))


@given(st.binary(max_size=100))
@settings(max_examples=300, deadline=None)
def test_arbitrary_bytes_never_crash(row: bytes) -> None:
    outcome(RowCodec(DAMAGED), row)
    outcome(RowCodec(pa.schema({"l": pa.list_(pa.list_(pa.string()))})), row)


def test_one_damaged_row_among_many_is_found() -> None:
    codec = RowCodec(pa.schema({"s": pa.string()}))
    rows = codec.encode(pa.table({"s": ["abc", "def", "ghi"]})).to_pylist()
    with pytest.raises(Corrupt):
        codec.decode([rows[0], rows[1][:-1], rows[2]])
    with pytest.raises(Corrupt):
        codec.decode([rows[0], rows[1] + b"x", rows[2]])
    with pytest.raises(Corrupt):
        codec.decode([rows[0], rows[1][:-1] + b"\xff"])
