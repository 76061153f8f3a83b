"""Integers, which wrap around as Java's do, and floats; division by zero gives NULL."""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from tailrace.rules.arrow.tree import Value


def nonzero(value: Value) -> Value:
    """The value, NULL where it is zero."""
    return pc.if_else(pc.equal(value, pa.scalar(0, value.type)), pa.scalar(None, value.type), value)


def quotient(left: Value, right: Value) -> Value:
    """left / right of doubles."""
    return pc.divide(left, nonzero(right))


def whole_quotient(left: Value, right: Value) -> Value:
    """left DIV right of bigints, rounded towards zero; the smallest one DIV -1 is itself."""
    minus_one = pc.equal(right, pa.scalar(-1, right.type))
    return pc.if_else(minus_one, pc.negate(left), pc.divide(left, nonzero(right)))


def whole_remainder(left: Value, right: Value) -> Value:
    """left % right of integers, with the sign of left."""
    rest = pc.subtract(left, pc.multiply(pc.divide(left, nonzero(right)), right))
    none = pc.multiply(left, pa.scalar(0, left.type))
    return pc.if_else(pc.equal(right, pa.scalar(-1, right.type)), none, rest)


def float_remainder(left: Value, right: Value) -> Value:
    """left % right of floats, with the sign of left."""
    divisor = nonzero(right)
    valid = pc.and_(pc.is_valid(left), pc.is_valid(divisor))
    with np.errstate(invalid="ignore"):
        rest = np.fmod(plain(left), plain(divisor))
    return pc.if_else(valid, pa.array(rest), pa.scalar(None, pa.from_numpy_dtype(rest.dtype)))


def plain(value: Value) -> npt.NDArray[Any]:
    """As NumPy; what stands where a value is NULL has no meaning."""
    if isinstance(value, pa.Scalar):
        return np.asarray(0 if value.as_py() is None else value.as_py(), dtype=value.type.to_pandas_dtype())
    if value.null_count:
        value = value.fill_null(0)
    return np.asarray(value.to_numpy())


def with_nulls_of(value: Value, found: npt.NDArray[Any]) -> Value:
    """An array of what was found, NULL where the value it was found from is."""
    return pa.array(found, mask=value.is_null().to_numpy(zero_copy_only=False) if value.null_count else None)


def sign(value: Value) -> Value:
    numbers = plain(value)
    return with_nulls_of(value, np.where(numbers > 0, 1.0, np.where(numbers < 0, -1.0, numbers)))


def root(value: Value) -> Value:
    with np.errstate(invalid="ignore"):
        return with_nulls_of(value, np.sqrt(plain(value)))


def floor(value: Value) -> Value:
    return saturated(pc.floor(value), 64)


def ceil(value: Value) -> Value:
    return saturated(pc.ceil(value), 64)


def saturated(value: Value, bits: int) -> Value:
    """Floats as integers, as Java casts them: cut off, too large ones the largest, NaN zero."""
    numbers = plain(value)
    width = max(bits, 32)
    low, high = -(2.0 ** (width - 1)), 2.0 ** (width - 1)
    inside = (numbers >= low) & (numbers < high)
    found = np.where(inside, numbers, 0).astype(f"int{width}")
    limits = np.iinfo(found.dtype)
    found = np.where(numbers >= high, limits.max, np.where(numbers < low, limits.min, found))
    return with_nulls_of(value, found.astype(f"int{bits}"))
