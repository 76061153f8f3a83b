"""Decoding primary keys gives the encoded values back; other bytes are recognised."""

from __future__ import annotations

from typing import Any

import numpy as np
import pyarrow as pa
from hypothesis import HealthCheck, example, given, settings
from hypothesis import strategies as st
from strategies import SCALARS, present

from tailrace.codec.key_reading import decode_keys
from tailrace.codec.keys import KeyCodec


@st.composite
def keys(draw: st.DrawFn) -> tuple[list[pa.DataType], list[list[Any]]]:
    kinds = draw(st.lists(st.sampled_from(SCALARS), min_size=1, max_size=3))
    count = draw(st.integers(0, 6))
    return kinds, [[draw(present(kind)) for _ in range(count)] for kind in kinds]


SLOW = settings(deadline=None, suppress_health_check=[HealthCheck.too_slow])


@SLOW
@given(keys())
@example(([pa.string()], [["\0\1", "\1\2"]]))
def test_keys_come_back(drawn: tuple[list[pa.DataType], list[list[Any]]]) -> None:
    kinds, values = drawn
    columns = [pa.array(column, kind) for column, kind in zip(values, kinds, strict=True)]
    codec = KeyCodec(kinds)
    encoded = codec.encode(columns)
    decoded, bad = decode_keys(kinds, encoded)
    assert not bad.any()
    assert [column.type for column in decoded] == kinds
    assert codec.encode(decoded).equals(encoded)  # as values are compared: zeros and NaNs have one form in a key


@SLOW
@given(keys(), st.data())
def test_bytes_that_are_no_keys(drawn: tuple[list[pa.DataType], list[list[Any]]], data: st.DataObject) -> None:
    """Whatever bytes come: what is accepted encodes to the same bytes, up to the forms of zeros and NaNs."""
    kinds, values = drawn
    codec = KeyCodec(kinds)
    whole = codec.encode([pa.array(c, k) for c, k in zip(values, kinds, strict=True)]).to_pylist()
    damaged = [*whole, *data.draw(st.lists(st.binary(max_size=12), max_size=4))]
    for key in whole:
        cut = data.draw(st.integers(0, len(key)))
        damaged += [key[:cut], key[:cut] + data.draw(st.binary(max_size=2)) + key[cut:]]
    columns, bad = decode_keys(kinds, pa.array(damaged, pa.large_binary()))
    assert not bad[: len(whole)].any()
    good = pa.array(~bad)
    again = codec.encode([column.filter(good) for column in columns], int(np.sum(~bad)))
    floats = any(pa.types.is_floating(kind) for kind in kinds)
    if not floats:
        assert again.to_pylist() == [key for key, wrong in zip(damaged, bad, strict=True) if not wrong]
    assert all(column.filter(good).null_count == 0 for column in columns)
