"""Cells of HBase: what is written is read back, and is what Bytes.toBytes of HBase writes."""

from __future__ import annotations

import struct
from datetime import date, datetime
from decimal import Decimal
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from strategies import KINDS, SCALARS, values

from tailrace.codec.rows import RowCodec
from tailrace.store.hbase.encodings import decode, default_encoding, encode

SLOW = settings(deadline=None, suppress_health_check=[HealthCheck.too_slow])


def same(kind: pa.DataType, one: pa.Array, other: pa.Array) -> bool:
    codec = RowCodec(pa.schema([pa.field("v", kind)]))
    return bool(codec.encode_columns([one], len(one)).equals(codec.encode_columns([other], len(other))))


@SLOW
@given(st.sampled_from(SCALARS).flatmap(lambda kind: st.tuples(st.just(kind), st.lists(values(kind), max_size=8))))
def test_binary_cells_come_back(drawn: tuple[pa.DataType, list[Any]]) -> None:
    kind, given_values = drawn
    array = pa.array(given_values, kind)
    cells = encode(array, "binary")
    assert cells.is_null().equals(array.is_null())
    decoded, bad = decode(cells, kind, "binary")
    assert not bad.any()
    assert decoded.type == kind
    assert same(kind, decoded, array)


@SLOW
@given(KINDS.flatmap(lambda kind: st.tuples(st.just(kind), st.lists(values(kind), max_size=5))))
def test_texts_come_back(drawn: tuple[pa.DataType, list[Any]]) -> None:
    kind, given_values = drawn
    array = pa.array(given_values, kind)
    decoded, bad = decode(encode(array, "string"), kind, "string")
    assert not bad.any()
    codec = RowCodec(pa.schema([pa.field("v", kind)]), canonical=True)  # a NaN is only one in a text
    assert codec.encode_columns([decoded], len(decoded)).equals(codec.encode_columns([array], len(array)))
    assert default_encoding(kind) in ("binary", "string")


@pytest.mark.parametrize(
    ("kind", "value", "cell"),
    [
        (pa.int32(), -2, "fffffffe"),
        (pa.int64(), 258, "0000000000000102"),
        (pa.int16(), 5, "0005"),
        (pa.int8(), -1, "ff"),
        (pa.bool_(), True, "ff"),
        (pa.bool_(), False, "00"),
        (pa.float64(), 1.5, struct.pack(">d", 1.5).hex()),
        (pa.float32(), -0.5, struct.pack(">f", -0.5).hex()),
        (pa.string(), "é", "c3a9"),
        (pa.binary(), b"\0\1", "0001"),
        (pa.date32(), date(1970, 1, 3), "00000002"),
        (pa.timestamp("us"), datetime(1970, 1, 1, 0, 0, 1), "00000000000f4240"),
        (pa.decimal128(10, 2), Decimal("-1.28"), "0000000280"),
        (pa.decimal128(10, 2), Decimal("1.28"), "000000020080"),
        (pa.decimal128(38, 0), Decimal(2**64), "00000000010000000000000000"),
    ],
)
def test_cells_are_those_of_other_clients(kind: pa.DataType, value: Any, cell: str) -> None:
    array = pa.array([value, None], kind)
    assert [None if c is None else c.hex() for c in encode(array, "binary").to_pylist()] == [cell, None]


def test_true_is_any_byte_but_zero_and_decimals_of_other_scales_fit_if_exact() -> None:
    cells = pa.array([b"\1", b"\0", b""], pa.large_binary())
    array, bad = decode(cells, pa.bool_(), "binary")
    assert (array.to_pylist(), bad.tolist()) == ([True, False, None], [False, False, True])
    cells = pa.array([bytes.fromhex(t) for t in ("0000000005", "000000037d", "00000003007d00", "000000030a", "0001")])
    array, bad = decode(cells.cast(pa.large_binary()), pa.decimal128(4, 2), "binary")
    assert array.to_pylist() == [Decimal("5.00"), None, Decimal("32.00"), Decimal("0.01"), None]
    assert bad.tolist() == [False, True, False, False, True]


@SLOW
@given(
    st.sampled_from(SCALARS),
    st.sampled_from(["binary", "string"]),
    st.lists(st.binary(max_size=9) | st.text("0123456789.-:T\0é", max_size=12).map(str.encode) | st.none(), max_size=6),
)
def test_any_bytes_decode_or_are_bad(kind: pa.DataType, encoding: Any, cells: list[bytes | None]) -> None:
    """A cell either has a value or is bad; other cells are not affected by a bad one."""
    array, bad = decode(pa.array(cells, pa.large_binary()), kind, encoding)
    array.validate(full=True)
    for i, cell in enumerate(cells):
        alone, wrong = decode(pa.array([cell], pa.large_binary()), kind, encoding)
        assert bad[i] == wrong[0]
        assert array[i].is_valid == (cell is not None and not bad[i])
        assert same(kind, alone, array.slice(i, 1))
