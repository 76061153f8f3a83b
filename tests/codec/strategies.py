"""Hypothesis strategies for values of every storable type, biased towards edge cases."""

from __future__ import annotations

import struct
from datetime import UTC, date, timedelta
from decimal import Context, Decimal
from typing import Any

import pyarrow as pa
from hypothesis import strategies as st

from tailrace import types

SCALARS = [
    *types.SCALARS.values(),
    *(pa.decimal128(p, s) for p, s in ((1, 0), (12, 2), (18, 18), (19, 0), (38, 0), (38, 10))),
]
NESTED = [
    types.arrow(text)
    for text in (
        "array<int>",
        "array<string>",
        "array<array<double>>",
        "struct<a:bigint,b:string>",
        "array<struct<x:decimal(20,2),y:array<boolean>>>",
        "map<string,int>",
        "map<int,map<string,struct<v:float>>>",
    )
] + [pa.struct([]), pa.list_(pa.struct([]))]
KINDS = st.recursive(
    st.sampled_from([kind for kind in SCALARS if not pa.types.is_floating(kind)] + [pa.float32(), pa.float64()] * 3),
    lambda parts: st.one_of(
        parts.map(pa.list_),
        st.lists(parts, min_size=1, max_size=3).map(
            lambda fields: pa.struct([(f"f{i}", f) for i, f in enumerate(fields)])
        ),
        st.tuples(st.sampled_from(SCALARS), parts).map(lambda pair: pa.map_(*pair)),
    ),
    max_leaves=6,
)
"""Types of any nesting."""
_EXACT = Context(prec=76)
_INTEGERS = {pa.int8(): 7, pa.int16(): 15, pa.int32(): 31, pa.int64(): 63}


def values(kind: pa.DataType) -> st.SearchStrategy[Any]:
    """Values of a type, or None."""
    return st.none() | present(kind)


def present(kind: pa.DataType) -> st.SearchStrategy[Any]:
    """Values of a type, never None."""
    if kind in _INTEGERS:
        bits = _INTEGERS[kind]
        return st.integers(-(2**bits), 2**bits - 1) | st.integers(-2, 2)
    if pa.types.is_boolean(kind):
        return st.booleans()
    if pa.types.is_floating(kind):
        width = 32 if kind == pa.float32() else 64
        return st.sampled_from([0.0, -0.0, float("nan"), float("inf"), float("-inf")]) | st.floats(width=width)
    if pa.types.is_decimal(kind):
        largest = 10**kind.precision - 1
        numbers = st.integers(-largest, largest) | st.integers(-min(300, largest), min(300, largest))
        return numbers.map(lambda n: _EXACT.scaleb(Decimal(n), -kind.scale))
    if pa.types.is_string(kind):
        return st.text(st.sampled_from("\0\1\2aé😀"), max_size=4) | st.text(max_size=20)
    if pa.types.is_binary(kind):
        return st.binary(max_size=20) | st.lists(st.sampled_from([0, 1, 2, 255]), max_size=4).map(bytes)
    if pa.types.is_date(kind):
        return st.dates() | st.dates(date(1969, 12, 30), date(1970, 1, 2))
    if pa.types.is_timestamp(kind):
        return st.datetimes(timezones=st.just(UTC) if kind.tz else st.none())
    if pa.types.is_duration(kind):
        longest = timedelta(microseconds=2**63 - 1)
        return st.timedeltas(-longest, longest) | st.timedeltas(timedelta(seconds=-2), timedelta(seconds=2))
    return _nested(kind)


def _nested(kind: pa.DataType) -> st.SearchStrategy[Any]:
    if pa.types.is_struct(kind):
        return st.fixed_dictionaries({field.name: values(field.type) for field in kind})
    if pa.types.is_map(kind):
        entries = st.tuples(present(kind.key_type), values(kind.item_type))
        return st.lists(entries, max_size=3, unique_by=lambda entry: repr(entry[0]).replace("-0.0", "0.0"))
    return st.lists(values(kind.value_type), max_size=4)


def tuples(kinds: list[pa.DataType], *, most: int = 8) -> st.SearchStrategy[list[tuple[Any, ...]]]:
    """Rows of these types."""
    return st.lists(st.tuples(*(values(kind) for kind in kinds)), max_size=most)


def columns(kinds: list[pa.DataType], rows: list[tuple[Any, ...]]) -> list[pa.Array]:
    return [pa.array([row[i] for row in rows], kind) for i, kind in enumerate(kinds)]


def bits(value: Any) -> Any:
    """The value with floats as bytes, so that `==` distinguishes -0.0 from 0.0 and NaN equals itself."""
    if isinstance(value, float):
        return struct.pack("<d", value)
    if isinstance(value, dict):
        return {name: bits(part) for name, part in value.items()}
    if isinstance(value, list | tuple):
        return [bits(part) for part in value]
    return value
