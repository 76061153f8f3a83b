"""Variance and standard deviation, from exact sums that support subtraction.

    m = Σ (x - mean)²  =  (n · Σx² - (Σx)²) / n        VAR_POP = m / n        VAR_SAMP = m / (n - 1)

With doubles, the subtraction would cancel most digits. Both sums are exact integers (see `exact`), so the difference
is exact and is rounded once, independent of earlier inserts and deletes.
"""

from __future__ import annotations

import math
import struct
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from tailrace.delta import Indices, sum_by
from tailrace.errors import Corrupt
from tailrace.rules import exact
from tailrace.rules.exact import UNIT, Exact

_HEAD = struct.Struct("<qI")  # the count of values, and the length in bytes of their encoded sum


@dataclass(frozen=True)
class Moments:
    """The count of values, their sum, and the sum of squares of the finite ones in units of 2^(-2·UNIT)."""

    count: int = 0
    sum: Exact = exact.ZERO
    squares: int = 0

    def __add__(self, other: Moments) -> Moments:
        return Moments(self.count + other.count, exact.add(self.sum, other.sum), self.squares + other.squares)

    def to_bytes(self) -> bytes:
        if self == NONE:
            return b""
        total = exact.to_bytes(self.sum)
        return _HEAD.pack(self.count, len(total)) + total + exact.to_bytes((self.squares, 0, 0, 0))

    @classmethod
    def from_bytes(cls, data: bytes) -> Moments:
        if not data:
            return NONE
        if len(data) < _HEAD.size:
            raise Corrupt(where="a stored variance", reason=f"it is too short ({len(data)} bytes)")
        count, length = _HEAD.unpack_from(data)
        end = _HEAD.size + length
        if end > len(data) or abs(count) >= 1 << 62:
            raise Corrupt(where="a stored variance", reason="its count or length is out of range")
        return cls(count, exact.from_bytes(data[_HEAD.size : end]), exact.from_bytes(data[end:])[0])

    def spread(self) -> float:
        """Σ (x - mean)², rounded once; NaN if a value is NaN or infinite."""
        total, *special = self.sum
        if any(special):
            return math.nan
        if not self.count:
            return 0.0
        try:
            return (self.count * self.squares - total * total) / (self.count << (2 * UNIT))
        except OverflowError:
            return math.inf


NONE = Moments()


def moments(
    ids: Indices, groups: int, values: npt.NDArray[np.float64], weights: npt.NDArray[np.int64]
) -> dict[int, Moments]:
    """The weighted moments of each group that has values."""
    counts = sum_by(ids, groups, weights)
    sums = exact.exact_sums(ids, groups, values, weights)
    finite = np.isfinite(values)
    squares = exact.square_sums(ids[finite], values[finite], weights[finite])
    touched = np.unique(ids).tolist()
    return {g: Moments(int(counts[g]), sums.get(g, exact.ZERO), squares.get(g, 0)) for g in touched}
