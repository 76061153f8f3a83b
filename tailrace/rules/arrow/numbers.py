"""Kernels for integers, which wrap around as in Java, and floats. Division by zero gives NULL."""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from tailrace.rules.arrow.tree import Value


def null_if_zero(value: Value) -> Value:
    return pc.if_else(pc.equal(value, pa.scalar(0, value.type)), pa.scalar(None, value.type), value)


def divide(left: Value, right: Value) -> Value:
    """left / right of doubles."""
    return pc.divide(left, null_if_zero(right))


def divide_integers(left: Value, right: Value) -> Value:
    """left DIV right of bigints, rounded towards zero. The smallest bigint DIV -1 wraps to itself."""
    minus_one = pc.equal(right, pa.scalar(-1, right.type))
    return pc.if_else(minus_one, pc.negate(left), pc.divide(left, null_if_zero(right)))


def integer_remainder(left: Value, right: Value) -> Value:
    """left % right of integers, with the sign of left."""
    rest = pc.subtract(left, pc.multiply(pc.divide(left, null_if_zero(right)), right))
    zero = pc.multiply(left, pa.scalar(0, left.type))
    return pc.if_else(pc.equal(right, pa.scalar(-1, right.type)), zero, rest)


def positive_remainder(value: Value, divisor: int) -> Value:
    """pmod(value, divisor) of a bigint and a positive divisor."""
    return restore_nulls(value, np.asarray(value.fill_null(0).to_numpy()) % divisor)


def float_remainder(left: Value, right: Value) -> Value:
    """left % right of floats, with the sign of left."""
    divisor = null_if_zero(right)
    valid = pc.and_(pc.is_valid(left), pc.is_valid(divisor))
    with np.errstate(invalid="ignore"):
        rest = np.fmod(to_numpy(left), to_numpy(divisor))
    return pc.if_else(valid, pa.array(rest), pa.scalar(None, pa.from_numpy_dtype(rest.dtype)))


def to_numpy(value: Value) -> npt.NDArray[Any]:
    """The value as NumPy numbers; 0 for NULL."""
    if isinstance(value, pa.Scalar):
        return np.asarray(0 if value.as_py() is None else value.as_py(), dtype=value.type.to_pandas_dtype())
    if value.null_count:
        value = value.fill_null(0)
    return np.asarray(value.to_numpy())


def restore_nulls(value: Value, result: npt.NDArray[Any]) -> Value:
    """The result as an Arrow array, NULL where `value` is NULL."""
    return pa.array(result, mask=value.is_null().to_numpy(zero_copy_only=False) if value.null_count else None)


def sign(value: Value) -> Value:
    numbers = to_numpy(value)
    return restore_nulls(value, np.where(numbers > 0, 1.0, np.where(numbers < 0, -1.0, numbers)))


def sqrt(value: Value) -> Value:
    with np.errstate(invalid="ignore"):
        return restore_nulls(value, np.sqrt(to_numpy(value)))


def floor(value: Value) -> Value:
    return float_to_integer(pc.floor(value), 64)


def ceil(value: Value) -> Value:
    return float_to_integer(pc.ceil(value), 64)


def float_to_integer(value: Value, bits: int) -> Value:
    """Casts floats to integers as Java does: truncates, saturates at the limits of the type, and maps NaN to 0."""
    numbers = to_numpy(value)
    width = max(bits, 32)
    low, high = -(2.0 ** (width - 1)), 2.0 ** (width - 1)
    inside = (numbers >= low) & (numbers < high)
    result = np.where(inside, numbers, 0).astype(f"int{width}")
    limits = np.iinfo(result.dtype)
    result = np.where(numbers >= high, limits.max, np.where(numbers < low, limits.min, result))
    return restore_nulls(value, result.astype(f"int{bits}"))
