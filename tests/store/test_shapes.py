"""Packed values of states (`store/lmdb/shapes.py`): they come back as they were, and damage is named."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import lmdb
import pyarrow as pa
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from tailrace.store.lmdb.shapes import MOST, Shapes
from tailrace.store.lmdb.templates import FEW, WIDEST

sparse = st.lists(st.sampled_from([0, 0, 0, 0, 1, 255]), max_size=WIDEST + 20).map(bytes)
alike = st.integers(0, WIDEST + 9).flatmap(
    lambda width: st.lists(st.binary(min_size=width, max_size=width), min_size=1, max_size=2 * FEW)
)
writes = st.lists(st.one_of(alike, st.lists(sparse, min_size=1, max_size=2 * FEW)), min_size=1, max_size=5)


@pytest.fixture(scope="module")
def place(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[Any, Any]]:
    with lmdb.open(str(tmp_path_factory.mktemp("shapes")), max_dbs=1, map_size=1 << 26, sync=False) as environment:
        yield environment, environment.open_db(b"shapes")


def opened(txn: Any, db: Any, state: int = 7, *, zeros: bool = True) -> Shapes:
    return Shapes(txn, db, state, zeros=zeros)


def stored(txn: Any, db: Any, values: list[bytes], state: int = 7, *, zeros: bool = True) -> list[bytes]:
    packed: list[bytes] = opened(txn, db, state, zeros=zeros).pack(pa.array(values, pa.large_binary())).to_pylist()
    return packed


@settings(suppress_health_check=[HealthCheck.function_scoped_fixture], deadline=None)
@given(writes, st.booleans())
def test_values_come_back(place: tuple[Any, Any], several: list[list[bytes]], zeros: bool) -> None:
    environment, db = place
    with environment.begin(write=True) as txn:
        packed = [value for values in several for value in stored(txn, db, values, zeros=zeros)]
        shapes = opened(txn, db, zeros=zeros)
        assert shapes.unpack(packed) == [value for values in several for value in values]
        assert [shapes.unpack([value])[0] for value in packed] == [value for values in several for value in values]
        txn.abort()


def test_bytes_that_are_always_zero_are_not_stored(place: tuple[Any, Any]) -> None:
    environment, db = place
    with environment.begin(write=True) as txn:
        small = [n.to_bytes(8, "little") + b"text" for n in range(100)]
        assert {len(value) for value in stored(txn, db, small)} == {1 + 1 + 4}
        large = [n.to_bytes(8, "little") + b"text" for n in range(1_000, 1_100)]
        assert {len(value) for value in stored(txn, db, large)} == {1 + 2 + 4}
        assert {len(value) for value in stored(txn, db, small)} == {1 + 2 + 4}  # the newest shape
        assert {len(value) for value in stored(txn, db, small, state=8)} == {1 + 1 + 4}
        txn.abort()


def test_bytes_that_are_always_equal_are_not_stored_in_format_4(place: tuple[Any, Any]) -> None:
    environment, db = place
    with environment.begin(write=True) as txn:
        ones = [b"\1\0" + bytes([n]) + b"text" for n in range(100)]
        assert {len(value) for value in stored(txn, db, ones, zeros=False)} == {1 + 1}
        twos = [b"\2\0" + bytes([n]) + b"text" for n in range(100)]
        assert {len(value) for value in stored(txn, db, twos, zeros=False)} == {1 + 2}
        assert {len(value) for value in stored(txn, db, ones, state=8, zeros=True)} == {1 + 6}
        txn.abort()


def test_a_state_has_a_limited_number_of_shapes(place: tuple[Any, Any]) -> None:
    environment, db = place
    with environment.begin(write=True) as txn:
        values = [bytes(at) + b"x" + bytes(WIDEST - at) for at in range(WIDEST)]
        values += [b"x" * width for width in range(WIDEST, -1, -1)]
        packed = [stored(txn, db, [value])[0] for value in values]
        assert packed[-1] == b"\0"
        assert max(value[0] for value in packed) == MOST
        assert opened(txn, db).unpack(packed) == values
        txn.abort()


@pytest.mark.parametrize("damaged", [b"", b"\x09abc", b"\x01"])
@pytest.mark.parametrize("others", [0, 2 * FEW])
def test_a_damaged_value_is_read_as_an_empty_one(place: tuple[Any, Any], damaged: bytes, others: int) -> None:
    environment, db = place
    with environment.begin(write=True) as txn:
        values = [b"\0\0ab", b"\0\0cd"] + [b"\0\0ef"] * others
        packed = stored(txn, db, values)
        assert opened(txn, db).unpack([*packed, damaged]) == [*values, b""]
        txn.abort()


def test_a_damaged_shape_damages_its_values_only(place: tuple[Any, Any]) -> None:
    environment, db = place
    with environment.begin(write=True) as txn:
        first, second = stored(txn, db, [b"\0\0ab"]), stored(txn, db, [b"\0cab"])
        txn.put((7).to_bytes(4) + b"\x02", b"\xff\xff\xff\xff", db=db)
        third = stored(txn, db, [b"\0\0\0b"])
        assert opened(txn, db).unpack([*first, *second, *third]) == [b"\0\0ab", b"", b"\0\0\0b"]
        txn.abort()
