"""Damaged states of aggregates and arrangements: rules raise `Corrupt` or answer, and always terminate."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from crafted import crafted, damaged, survives
from hypothesis import given, settings
from hypothesis import strategies as st

from tailrace.errors import Corrupt
from tailrace.rules import exact
from tailrace.rules.aggregate import Accumulate
from tailrace.rules.arranged import Arranged
from tailrace.rules.extremes import Values
from tailrace.rules.moments import Moments, moments
from tailrace.store.lmdb.store import KEY_LIMIT
from tailrace.types import Column

NUMBERS = np.array([1.5, -2.25, 1e300, 5e-324, float("nan"), float("inf")])
SUMS = [exact.to_bytes(exact.exact_sums(np.zeros(n, int), 1, NUMBERS[:n], np.ones(n, int))[0]) for n in (1, 3, 6)]
SPREADS = [moments(np.zeros(n, int), 1, NUMBERS[:n], np.ones(n, int))[0].to_bytes() for n in (1, 3, 6)]


@crafted
@given(damaged(SUMS))
def test_a_damaged_sum_of_doubles(data: bytes) -> None:
    decoded = survives(lambda: exact.from_bytes(data))
    if not isinstance(decoded, Corrupt):
        exact.to_double(decoded)
        exact.to_bytes(exact.add(decoded, decoded))


@crafted
@given(damaged(SPREADS))
def test_damaged_moments(data: bytes) -> None:
    decoded = survives(lambda: Moments.from_bytes(data))
    if not isinstance(decoded, Corrupt):
        decoded.spread()
        survives((decoded + decoded).to_bytes)


class FixedEntries:
    """A `Before` that returns the given entries for any key or range."""

    def __init__(self, entries: dict[int, list[tuple[bytes, bytes]]]) -> None:
        self._entries = entries

    def get_many(self, state: int, keys: Sequence[bytes]) -> dict[bytes, bytes]:
        values = [value for _, value in self._entries.get(state, [])]
        return {key: values[i % len(values)] for i, key in enumerate(keys)} if values else {}

    def values(self, state: int, keys: pa.LargeBinaryArray) -> pa.LargeBinaryArray:
        values = self.get_many(state, keys.to_pylist())
        return pa.array([values.get(key) for key in keys.to_pylist()], pa.large_binary())

    def under(self, state: int, prefixes: Sequence[bytes]) -> Iterator[tuple[bytes, list[bytes]]]:
        yield from ((prefix, [value for _, value in self._entries.get(state, [])]) for prefix in prefixes)

    def scan(self, state: int, low: bytes, high: bytes | None, ahead: int = 1) -> Iterator[tuple[bytes, bytes]]:
        yield from ((low + key, value) for key, value in self._entries.get(state, []))

    def scan_back(self, state: int, low: bytes, high: bytes | None) -> Iterator[tuple[bytes, bytes]]:
        yield from reversed(list(self.scan(state, low, high)))


RULE = Accumulate(
    1, (Column("g", "string"),), ("bigint", "decimal(38,2)"), 1, 1, (Values(2, "string", True, KEY_LIMIT),), KEY_LIMIT
)


def delta(sign: int) -> pa.Table:
    """Three rows, inserted (1) or deleted (-1)."""
    return pa.table(
        {
            "_0": ["a", "b", "b"],
            "s0": pa.array([5 * sign] * 3, pa.int64()),
            "s1": pa.array([sign] * 3).cast(pa.decimal128(38, 2)),
            "f0": [1.5, 2.5, None],
            "m0": [1.5, 2.5, None],
            "x0": ["one", "two", "three"],
            "_weight": pa.array([sign] * 3, pa.int64()),
            "_shard": pa.array([0] * 3, pa.int32()),
        }
    )


def entries_after(rule: Any, rows: pa.Table) -> dict[int, list[tuple[bytes, bytes]]]:
    """The entries of the rule's states after a first delta."""
    _, writes = rule.step([rows], FixedEntries({}))
    return {w.state: list(zip(w.keys.to_pylist(), w.values.to_pylist(), strict=True)) for w in writes}


def test_undamaged_states_are_accepted() -> None:
    out, writes = RULE.step([delta(1)], FixedEntries(entries_after(RULE, delta(1))))
    assert out is not None
    assert {w.state for w in writes} == {1, 2}


@settings(crafted, max_examples=150)
@given(st.data())
def test_damaged_accumulators_and_values(data: st.DataObject) -> None:
    entries = entries_after(RULE, delta(1))
    state = data.draw(st.sampled_from([1, 2]))
    valid = [value for _, value in entries[state]]
    entries[state] = [(key, data.draw(damaged(valid))) for key, _ in entries[state]]
    survives(lambda: RULE.step([delta(data.draw(st.sampled_from([1, -1])))], FixedEntries(entries)))


@pytest.mark.parametrize("key", [None, (0,)], ids=["bag", "keyed"])
@crafted
@given(data=st.data())
def test_a_damaged_arrangement(key: tuple[int, ...] | None, data: st.DataObject) -> None:
    arranged = Arranged(3, (Column("id", "bigint"), Column("name", "string")), key, (1,), KEY_LIMIT)
    rows = pa.table({"_0": [1, 2], "_1": ["a", "b"], "_weight": pa.array([1, 1], pa.int64()), "_shard": [0, 0]})
    net = arranged.encode_net(rows)
    keys = arranged.entry_keys(net)
    write = arranged.make_write(net, keys, FixedEntries({}))
    valid = write.values.to_pylist()
    before = FixedEntries({3: [(k, data.draw(damaged(valid))) for k in keys.to_pylist()]})
    survives(lambda: arranged.fetch(net.groups.to_pylist(), before))
    survives(lambda: arranged.make_write(net, keys, before))
