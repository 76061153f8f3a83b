"""Exact sums of doubles, from which a value can be subtracted without a rounding error.

    sum = Σ mantissa · 2^exponent        stored as one integer in units of 2^-1127

Adding and subtracting doubles accumulates rounding errors. They would stay in a view forever and depend on how
operations are split into epochs. An integer holds the exact sum for values of any magnitude. NaN and the infinities
are counted separately.
"""

from __future__ import annotations

import math
import struct

import numpy as np
import numpy.typing as npt

from tailrace.delta import Indices
from tailrace.errors import Corrupt

UNIT = 1127  # every finite double is a 53-bit integer times 2^e with e >= -UNIT
_COUNTS = struct.Struct("<qqqH")
_MAX_COUNT = 1 << 62
_MAX_ZEROS = 1024  # trailing zero bytes; the square of the largest double has half as many
_LIMBS = 256  # more than the limbs of any sum: group * _LIMBS + limb is unique
_HALF = np.uint64(27)
_MASK = np.uint64(0xFFFFFFFF)

Exact = tuple[int, int, int, int]  # the sum of the finite values; the counts of NaN, +inf and -inf
ZERO: Exact = (0, 0, 0, 0)


def exact_sums(
    ids: Indices, groups: int, values: npt.NDArray[np.float64], weights: npt.NDArray[np.int64]
) -> dict[int, Exact]:
    """The exact weighted sum of each group that has values."""
    finite = np.isfinite(values)
    sums = _finite_sums(ids[finite], values[finite], weights[finite])
    special = {
        1: np.isnan(values),
        2: np.isposinf(values),
        3: np.isneginf(values),
    }
    totals: dict[int, list[int]] = {g: [s, 0, 0, 0] for g, s in sums.items()}
    for position, mask in special.items():
        for group, weight in zip(ids[mask].tolist(), weights[mask].tolist(), strict=True):
            totals.setdefault(group, [0, 0, 0, 0])[position] += weight
    return {g: (t[0], t[1], t[2], t[3]) for g, t in totals.items()}


def _finite_sums(ids: Indices, values: npt.NDArray[np.float64], weights: npt.NDArray[np.int64]) -> dict[int, int]:
    mantissas, shifts = _to_integers(values)
    return _limb_sums(ids, np.abs(mantissas).astype(np.uint64), shifts, np.sign(mantissas) * weights)


def square_sums(ids: Indices, values: npt.NDArray[np.float64], weights: npt.NDArray[np.int64]) -> dict[int, int]:
    """Each group's exact weighted sum of squares of finite values, in units of 2^(-2·UNIT).

    A mantissa is split into halves a and b: m² = a²·2^54 + 2ab·2^27 + b². Each product has at most 54 bits.
    """
    mantissas, shifts = _to_integers(values)
    size = np.abs(mantissas).astype(np.uint64)
    high, low = size >> _HALF, size & ((np.uint64(1) << _HALF) - np.uint64(1))
    terms = ((high * high, 54), (high * low, 28), (low * low, 0))
    return _limb_sums(
        np.concatenate([ids] * 3),
        np.concatenate([term for term, _ in terms]),
        np.concatenate([2 * shifts + up for _, up in terms]),
        np.concatenate([weights] * 3),
    )


def _to_integers(values: npt.NDArray[np.float64]) -> tuple[npt.NDArray[np.int64], npt.NDArray[np.int64]]:
    """Finite doubles as 53-bit integers, and the left shift that converts each to units of 2^-UNIT."""
    fractions, exponents = np.frexp(values)
    return np.ldexp(fractions, 53).astype(np.int64), exponents.astype(np.int64) - 53 + UNIT


def _limb_sums(
    ids: Indices, size: npt.NDArray[np.uint64], shifts: npt.NDArray[np.int64], signed: npt.NDArray[np.int64]
) -> dict[int, int]:
    """Σ size · 2^shift · signed per group. Each size of up to 54 bits is split into 32-bit limbs, which are summed."""
    limbs, bits = shifts >> 5, (shifts & 31).astype(np.uint64)
    low, high = (size & _MASK) << bits, (size >> np.uint64(32)) << bits
    pieces = (low & _MASK, (low >> np.uint64(32)) + (high & _MASK), high >> np.uint64(32))
    codes = np.concatenate([ids * _LIMBS + limbs + i for i in range(3)])
    amounts = np.concatenate([p.astype(np.int64) * signed for p in pieces])
    distinct, inverse = np.unique(codes, return_inverse=True)
    totals = np.zeros(len(distinct), dtype=np.int64)
    np.add.at(totals, inverse, amounts)
    sums: dict[int, int] = {}
    for code, total in zip(distinct.tolist(), totals.tolist(), strict=True):
        group, limb = divmod(code, _LIMBS)
        sums[group] = sums.get(group, 0) + (total << (32 * limb))
    return sums


def add(left: Exact, right: Exact) -> Exact:
    return (left[0] + right[0], left[1] + right[1], left[2] + right[2], left[3] + right[3])


def to_bytes(value: Exact) -> bytes:
    """The counts of NaN and infinities, the number of trailing zero bytes, then the integer without those bytes."""
    if value == ZERO:
        return b""
    total, *counts = value
    zeros = ((total & -total).bit_length() - 1) // 8 if total else 0
    total >>= 8 * zeros
    return _COUNTS.pack(*counts, zeros) + total.to_bytes(total.bit_length() // 8 + 1, "little", signed=True)


def from_bytes(data: bytes) -> Exact:
    if not data:
        return ZERO
    if len(data) <= _COUNTS.size:
        raise Corrupt(where="a sum of doubles", reason=f"it is too short ({len(data)} bytes)")
    nan, positive, negative, zeros = _COUNTS.unpack_from(data)
    if zeros > _MAX_ZEROS or any(abs(n) >= _MAX_COUNT for n in (nan, positive, negative)):
        raise Corrupt(where="a sum of doubles", reason="its counts are out of range")
    return int.from_bytes(data[_COUNTS.size :], "little", signed=True) << (8 * zeros), nan, positive, negative


def to_double(value: Exact) -> float:
    """The double nearest to the exact sum. NaN and infinities add as in IEEE arithmetic."""
    total, nan, positive, negative = value
    if nan or (positive and negative):
        return math.nan
    if positive or negative:
        return math.inf if positive else -math.inf
    try:
        return total / (1 << UNIT)
    except OverflowError:
        return math.inf if total > 0 else -math.inf
