"""Cells of one length are handled as records, others row by row; both give the same result."""

from __future__ import annotations

import numpy as np
import pyarrow as pa
from hypothesis import given
from hypothesis import strategies as st

from tailrace.codec import arrays

CELLS = st.lists(st.binary(min_size=3, max_size=3), max_size=9) | st.lists(st.binary(max_size=4), max_size=9)


def binary(values: list[bytes]) -> pa.LargeBinaryArray:
    return pa.array(values, pa.large_binary())


def test_cell_width() -> None:
    assert arrays.cell_width(binary([b"abc", b"def"])) == 3
    assert arrays.cell_width(binary([b"abc", b"def", b"g"]).slice(0, 2)) == 3
    assert arrays.cell_width(binary([b"", b""])) == 0
    assert arrays.cell_width(binary([b"abc", b"g"])) is None
    assert arrays.cell_width(binary([])) is None
    assert arrays.cell_width(pa.array([b"abc", None], pa.large_binary())) is None


@given(CELLS, st.data())
def test_take_cells(values: list[bytes], data: st.DataObject) -> None:
    cut = data.draw(st.integers(0, len(values)))
    rest = values[cut:]
    at = data.draw(st.lists(st.integers(-1, len(rest) - 1)))
    taken = arrays.take_cells(binary(values).slice(cut), np.array(at, np.int64))
    assert taken.to_pylist() == [None if i < 0 else rest[i] for i in at]


@given(CELLS, st.binary(max_size=2), st.integers(0, 2))
def test_join_cells(values: list[bytes], front: bytes, cut: int) -> None:
    keys, prefix = binary(values).slice(min(cut, len(values))), pa.scalar(front, pa.large_binary())
    expected = keys.to_pylist()
    assert arrays.join_cells([keys]).to_pylist() == expected
    assert arrays.join_cells([prefix, keys, keys]).to_pylist() == [front + v + v for v in expected]
    many = binary(values * 50)
    for some in (keys, many):
        assert list(arrays.pairs(some, some)) == [(v, v) for v in some.to_pylist()]


@given(CELLS, st.integers(0, 5))
def test_drop_prefix(values: list[bytes], count: int) -> None:
    assert arrays.drop_prefix(binary(values), count).to_pylist() == [v[count:] for v in values]
