"""Sums of squares are exact: they equal sums of fractions, and return to zero when every row is deleted."""

from __future__ import annotations

import math
from fractions import Fraction

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from tailrace.rules.exact import UNIT
from tailrace.rules.moments import NONE, Moments, moments

ROWS = st.lists(st.tuples(st.integers(0, 2), st.floats(allow_nan=False, allow_infinity=False), st.integers(-2, 3)))


@given(ROWS)
def test_moments_are_exact_and_can_be_subtracted(rows: list[tuple[int, float, int]]) -> None:
    ids = np.array([r[0] for r in rows], dtype=np.int64)
    values = np.array([r[1] for r in rows], dtype=np.float64)
    weights = np.array([r[2] for r in rows], dtype=np.int64)
    by_group = moments(ids, 3, values, weights)
    for group, group_moments in by_group.items():
        squares = sum((Fraction(v) ** 2 * w for g, v, w in rows if g == group), Fraction(0))
        assert Fraction(group_moments.squares, 1 << (2 * UNIT)) == squares
        assert Moments.from_bytes(group_moments.to_bytes()) == group_moments
    deleted = moments(ids, 3, values, -weights)
    assert all(by_group[g] + deleted[g] == NONE for g in by_group)


def test_spread_loses_no_digits_and_handles_nan_and_infinity() -> None:
    def spread(*values: float) -> float:
        count = len(values)
        ids, ones = np.zeros(count, dtype=np.int64), np.ones(count, dtype=np.int64)
        return moments(ids, 1, np.array(values), ones)[0].spread()

    assert spread(1e15 + 1, 1e15 + 2, 1e15 + 3) == 2.0
    assert spread(0.1, 0.1, 0.1) == 0.0
    assert spread(1e200, -1e200) == math.inf
    assert math.isnan(spread(math.inf, 1.0))
    assert math.isnan(spread(math.nan))
    assert NONE.spread() == 0.0
