"""Encoded keys sort in SQL order, and one key encodes to the same bytes as a column of keys."""

from __future__ import annotations

import itertools
import math
from dataclasses import dataclass
from datetime import timedelta, timezone
from decimal import Decimal
from functools import total_ordering
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from strategies import KINDS, NESTED, SCALARS, columns, tuples, values

from tailrace.codec.arrays import normalise
from tailrace.codec.keys import Direction, KeyCodec
from tailrace.errors import Unsupported

some_scalars = st.lists(st.sampled_from(SCALARS), min_size=1, max_size=4)
some_types = st.lists(st.sampled_from(SCALARS + NESTED) | KINDS, max_size=4)


def encode(kinds: list[pa.DataType], rows: list[tuple[Any, ...]]) -> list[bytes]:
    return KeyCodec(kinds).encode(columns(kinds, rows), len(rows)).to_pylist()


def sql_order(value: Any) -> tuple[Any, ...]:
    """A sort key that makes Python sort in SQL order."""
    if value is None:
        return (0,)
    if isinstance(value, float):
        return (1, math.isnan(value), 0.0 if math.isnan(value) else value + 0.0)
    return (1, value.encode() if isinstance(value, str) else value)


def assert_sql_order(kinds: list[pa.DataType], rows: list[tuple[Any, ...]]) -> None:
    pairs = list(zip(encode(kinds, rows), [[sql_order(v) for v in row] for row in rows], strict=True))
    for (key, row), (other_key, other_row) in itertools.combinations(pairs, 2):
        assert (key < other_key) == (row < other_row)
        assert (key == other_key) == (row == other_row)


@pytest.mark.parametrize("kind", SCALARS, ids=str)
@given(data=st.data())
@settings(max_examples=50, deadline=None)
def test_bytes_sort_as_sql_does_for_each_type(kind: pa.DataType, data: st.DataObject) -> None:
    assert_sql_order([kind], data.draw(tuples([kind])))


@given(st.data())
@settings(max_examples=200, deadline=None)
def test_bytes_sort_as_sql_does_for_composites(data: st.DataObject) -> None:
    kinds = data.draw(some_scalars)
    # Few distinct values per column, so that rows often share their first columns.
    pools = [st.sampled_from(data.draw(st.lists(values(kind), min_size=1, max_size=2))) for kind in kinds]
    assert_sql_order(kinds, data.draw(st.lists(st.tuples(*pools), max_size=8)))


directions = st.builds(Direction, st.booleans(), st.booleans())


def order_by_key(row: tuple[Any, ...], key_directions: list[Direction]) -> list[Any]:
    """A sort key that makes Python sort like ORDER BY with these directions."""
    return [
        (
            direction.nulls_first is (value is not None),
            Reversed(sql_order(value)) if not direction.ascending else sql_order(value),
        )
        for value, direction in zip(row, key_directions, strict=True)
    ]


@total_ordering
@dataclass(frozen=True)
class Reversed:
    value: Any

    def __lt__(self, other: Reversed) -> bool:
        return bool(other.value < self.value)


@given(st.data())
@settings(max_examples=300, deadline=None)
def test_bytes_sort_by_any_direction_and_order_of_nulls(data: st.DataObject) -> None:
    kinds = data.draw(some_scalars)
    key_directions = [data.draw(directions) for _ in kinds]
    pools = [st.sampled_from(data.draw(st.lists(values(kind), min_size=1, max_size=3))) for kind in kinds]
    rows = data.draw(st.lists(st.tuples(*pools), max_size=8))
    codec = KeyCodec(kinds, key_directions)
    keys = codec.encode(columns(kinds, rows), len(rows)).to_pylist()
    assert keys == [codec.encode_one(row) for row in rows]
    pairs = list(zip(keys, [order_by_key(row, key_directions) for row in rows], strict=True))
    for (key, row), (other_key, other_row) in itertools.combinations(pairs, 2):
        assert (key < other_key) == (row < other_row)
        assert (key == other_key) == (row == other_row)
        assert key == other_key or not other_key.startswith(key)


@given(st.data())
@settings(max_examples=200, deadline=None)
def test_one_key_encodes_as_a_column_does(data: st.DataObject) -> None:
    kinds = data.draw(some_types)
    rows = data.draw(tuples(kinds))
    codec = KeyCodec(kinds)
    assert [codec.encode_one(row) for row in rows] == encode(kinds, rows)


@given(st.data())
@settings(max_examples=100, deadline=None)
def test_fewer_columns_give_a_prefix(data: st.DataObject) -> None:
    kinds = data.draw(some_types)
    rows = data.draw(tuples(kinds))
    codec, whole = KeyCodec(kinds), encode(kinds, rows)
    for k in range(len(kinds) + 1):
        part = codec.encode(columns(kinds, rows)[:k], len(rows)).to_pylist()
        assert all(key.startswith(prefix) for key, prefix in zip(whole, part, strict=True))
        assert part == [codec.encode_one(row[:k]) for row in rows]


@pytest.mark.parametrize("kind", SCALARS + NESTED, ids=str)
@given(data=st.data())
@settings(max_examples=30, deadline=None)
def test_no_value_is_a_prefix_of_another(kind: pa.DataType, data: st.DataObject) -> None:
    keys = encode([kind], data.draw(tuples([kind])))
    for key, other in itertools.permutations(keys, 2):
        assert key == other or not other.startswith(key)


@given(st.data())
@settings(max_examples=100, deadline=None)
def test_slices_and_chunks_make_no_difference(data: st.DataObject) -> None:
    kinds = data.draw(st.lists(st.sampled_from(SCALARS + NESTED), min_size=1, max_size=4))
    rows = data.draw(tuples(kinds))
    cut = data.draw(st.integers(0, len(rows)))
    codec, whole = KeyCodec(kinds), columns(kinds, rows)
    assert codec.encode([column.slice(cut) for column in whole]).to_pylist() == encode(kinds, rows[cut:])
    chunks = [pa.chunked_array([c.slice(0, cut), c.slice(cut)], c.type) for c in whole]
    assert codec.encode(chunks).to_pylist() == encode(kinds, rows)


@pytest.mark.parametrize("kind", [pa.large_string(), pa.string_view(), pa.dictionary(pa.int32(), pa.string())])
def test_other_layouts_of_strings(kind: pa.DataType) -> None:
    texts = pa.array(["a", None, "b\0", "\1"])
    codec = KeyCodec([pa.string()])
    assert codec.encode([texts.cast(kind)]) == codec.encode([texts])
    assert codec.encode([texts.cast(kind)[2:]]) == codec.encode([texts])[2:]


def test_a_slice_of_large_binary_is_encoded_from_its_offset() -> None:
    cells = pa.array([b"\0\0", b"a\1", b"b\0"], pa.large_binary())[1:]
    keys = KeyCodec([pa.binary()]).encode([cells]).to_pylist()
    assert keys == [b"\1a\1\2\0", b"\1b\1\1\0"]


def test_bytes_under_a_null_are_not_part_of_the_key() -> None:
    hidden = pa.Array.from_buffers(pa.int64(), 2, [pa.py_buffer(b"\2"), pa.py_buffer(np.array([7, 8]))])
    assert KeyCodec([pa.int64()]).encode([hidden]).to_pylist() == encode([pa.int64()], [(None,), (8,)])


def test_floats_equal_in_sql_have_one_key_in_nested_values_too() -> None:
    odd = np.frombuffer(bytes.fromhex("000000000000f8ff0100000000000cff0000000000000080"), "<f8")
    nan, _, zero = odd.tolist()
    kind = pa.list_(pa.float64())
    assert len(set(encode([pa.float64()], [(nan,), (float("nan"),)]))) == 1
    assert len(set(encode([kind], [([nan, zero],), ([float("nan"), 0.0],)]))) == 1


def test_normalise_leaves_one_zero_and_one_nan() -> None:
    for item, word in (("<f4", "<u4"), ("<f8", "<u8")):
        sign = 1 << (8 * np.dtype(item).itemsize - 1)
        raw = np.array([sign, 0, sign | sign - 1, np.array(np.nan, item).view(word)], word).view(item)
        words = normalise(pa.array(raw, from_pandas=False)).to_numpy().view(word)
        assert words[0] == words[1] == 0
        assert words[2] == words[3] == np.array(np.nan, item).view(word)
    texts = pa.array(["a"])
    assert normalise(texts) is texts


def test_normalise_reaches_into_nested_values() -> None:
    inner = pa.struct([("x", pa.float64()), ("s", pa.string())])
    kind = pa.struct([("l", pa.list_(inner)), ("m", pa.map_(pa.string(), pa.float32())), ("n", pa.int32())])
    rows = [
        None,
        {"l": [{"x": -0.0, "s": "a"}, None, {"x": None, "s": None}], "m": [("k", -0.0), ("l", None)], "n": 1},
        {"l": None, "m": None, "n": None},
        {"l": [], "m": [], "n": 2},
        {"l": [{"x": -float("nan"), "s": "b"}, {"x": -1.5, "s": ""}], "m": [("k", float("nan"))], "n": 3},
    ]
    array = pa.array(rows, kind)
    for part in (array, array.slice(1), array.slice(2, 2), pa.chunked_array([array, array.slice(4)])):
        normalised = normalise(part)
        normalised.validate(full=True)
        assert normalised.type == kind
        assert str(normalised.to_pylist()) == str(part.to_pylist()).replace("-0.0", "0.0")
    integers = pa.array([[1]])
    assert normalise(integers) is integers


def test_a_timestamp_encodes_its_instant_in_any_time_zone() -> None:
    codec = KeyCodec([pa.timestamp("us", "UTC")])
    [instant] = pa.array([1_700_000_000_000_001], pa.timestamp("us", "UTC")).to_pylist()
    elsewhere = instant.astimezone(timezone(timedelta(hours=5)))
    assert codec.encode_one([elsewhere]) == codec.encode_one([instant.replace(tzinfo=None)])


def test_keys_without_columns_or_rows() -> None:
    codec = KeyCodec([])
    assert codec.encode([], 3).to_pylist() == [b"", b"", b""]
    assert codec.encode_one([]) == b""
    with pytest.raises(ValueError, match="length"):
        codec.encode([])
    for kind in SCALARS + NESTED:
        assert encode([kind], []) == []


def test_values_that_do_not_fit_are_refused() -> None:
    codec = KeyCodec([pa.int64(), pa.decimal128(12, 2)])
    with pytest.raises(ValueError, match="columns"):
        codec.encode_one([1, Decimal(1), 2])
    with pytest.raises(OverflowError):
        codec.encode_one([2**63])
    with pytest.raises(ValueError, match="digits"):
        codec.encode_one([1, Decimal("1.234")])
    with pytest.raises(Unsupported):
        KeyCodec([pa.time64("us")])
