"""Keys sort the same as bytes and as integers, and netting rows by key equals netting them by row."""

from __future__ import annotations

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tailrace.codec.sorting import mark_run_starts, order, pack_keys
from tailrace.errors import Corrupt
from tailrace.rules.sink import keyed_write, net_keyed, net_rows

ALIKE = st.lists(
    st.tuples(st.integers(0, 3), st.integers(0, 2**40)).map(lambda t: b"\x00%c\x01" % t[0] + t[1].to_bytes(8))
)
FAR = st.lists(st.binary(min_size=12, max_size=12))
RAGGED = st.lists(st.binary(max_size=4))


def binary(values: list[bytes]) -> pa.LargeBinaryArray:
    return pa.array(values, pa.large_binary())


@given(ALIKE | FAR | RAGGED, st.integers(0, 3))
def test_order_equals_byte_order(values: list[bytes], skipped: int) -> None:
    keys = binary(values).slice(skipped)
    cells = keys.to_pylist()
    indices, fresh = order(keys)
    ordered = [cells[i] for i in indices]
    assert sorted(indices.tolist()) == list(range(len(cells)))
    assert ordered == sorted(cells)
    expected = [i == 0 or key != ordered[i - 1] for i, key in enumerate(ordered)]
    assert fresh[: len(ordered)].tolist() == expected
    assert mark_run_starts(np.array(ordered, object)).tolist() == expected


def test_keys_that_differ_in_few_bits_are_packed() -> None:
    keys = binary([b"\x00\x07\x01" + n.to_bytes(8) for n in (3, 2**40, 2**41, 1)])
    packed = pack_keys(keys)
    assert packed is not None
    numbers, bits = packed
    assert np.argsort(numbers).tolist() == [3, 0, 1, 2]
    assert bits == 4  # two bits differ in a high byte, two in the lowest
    assert pack_keys(binary([bytes(9), b"\xff" * 9])) is None
    assert pack_keys(binary([b"a", b"ab"])) is None


@pytest.mark.parametrize("bits", [0, 20, 57, 64], ids="{} bits".format)
@pytest.mark.parametrize("count", [1, 64, 1000])
def test_many_keys_in_order(bits: int, count: int) -> None:
    """Covers keys with and without room for their index in the word."""
    numbers = np.random.default_rng(1).integers(0, 2**bits - 1, count, np.uint64, endpoint=True)
    numbers = np.concatenate([numbers, numbers[: count // 2]])
    keys = binary([b"\x01" + int(n).to_bytes(8) for n in numbers])
    indices, fresh = order(keys)
    assert indices.tolist() == np.argsort(numbers, kind="stable").tolist()
    assert int(fresh.sum()) == len(set(numbers.tolist()))


ROWS = st.lists(st.tuples(st.integers(0, 5), st.integers(0, 2), st.integers(-2, 2)), max_size=30)


@given(ROWS)
def test_net_by_key_equals_net_by_row(rows: list[tuple[int, int, int]]) -> None:
    keys = binary([b"%d" % key for key, _, _ in rows])
    encoded = binary([b"%d/%d" % (key, value) for key, value, _ in rows])
    weights = np.array([weight for _, _, weight in rows], dtype=np.int64)

    def weights_by_row(picked: np.ndarray, totals: np.ndarray) -> dict[bytes, int]:
        picked_rows = [encoded[i].as_py() for i in picked.tolist()]
        assert len(set(picked_rows)) == len(picked_rows)
        return dict(zip(picked_rows, totals.tolist(), strict=True))

    net = net_keyed(keys, encoded, weights)
    assert weights_by_row(net.at, net.weights) == weights_by_row(*net_rows(encoded, weights))
    ordered = [keys[i].as_py() for i in net.at.tolist()]
    assert ordered == sorted(ordered)
    assert net.fresh.tolist() == [i == 0 or key != ordered[i - 1] for i, key in enumerate(ordered)]


def test_a_key_has_at_most_one_inserted_and_one_deleted_row() -> None:
    keys, rows = binary([b"b", b"a", b"b", b"c"]), binary([b"B", b"A", b"B2", b"C"])
    write = keyed_write(7, keys, rows, net_keyed(keys, rows, np.array([-1, 1, 1, -1])))
    assert write.keys.to_pylist() == [b"a", b"b", b"c"]
    assert write.values.to_pylist() == [b"A", b"B2", None]
    assert write.olds is not None
    assert write.olds.to_pylist() == [None, b"B", b"C"]
    with pytest.raises(Corrupt, match="two rows under one key"):
        keyed_write(7, keys, rows, net_keyed(keys, rows, np.array([1, 1, 1, 1])))
