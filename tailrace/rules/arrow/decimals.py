"""Decimal kernels. Results are rounded half up, and NULL if they have too many digits.

Arrow's arithmetic is exact if the result type has at most 38 digits. If it has more, the operands are first narrowed to
the digits that their values really have. If that is not enough, Python integers compute the result.
"""

from __future__ import annotations

from decimal import Decimal
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from tailrace.rules.arrow.coercion import MAX_PRECISION, exact_precision
from tailrace.rules.arrow.tree import Value

Integers = npt.NDArray[Any]  # of int64, or of Python integers (dtype object)
Mask = npt.NDArray[np.bool_]
_LOW = (1 << 64) - 1
_HALF_UP = "half_towards_infinity"
_OPERATIONS = {"+": pc.add, "-": pc.subtract, "*": pc.multiply}
_SAFE_DIGITS = 18  # for a and b of this many digits, 2a + b fits an int64
_EXACT_DOUBLE = 1 << 53


def arithmetic(left: Value, right: Value, operator: str, precision: int, scale: int) -> Value:
    """left + right, left - right or left * right as decimal(precision, scale)."""
    for a, b in ((left, right), (narrow(left), narrow(right))):
        if exact_precision(operator, _parts(a), _parts(b))[0] <= MAX_PRECISION:
            return rescale(_OPERATIONS[operator](a, b), precision, scale)
    (a, b), valid = _unscaled_columns(left, right)
    a, b = a.astype(object), b.astype(object)
    (_, s1), (_, s2) = _parts(left), _parts(right)
    if operator == "*":
        exact, exact_scale = a * b, s1 + s2
    else:
        exact_scale = max(s1, s2)
        a, b = a * 10 ** (exact_scale - s1), b * 10 ** (exact_scale - s2)
        exact = a + b if operator == "+" else a - b
    return build(_shift_scale(exact, scale - exact_scale), valid, precision, scale)


def divide(left: Value, right: Value, precision: int, scale: int) -> Value:
    """left / right; NULL where right is zero."""
    shift = scale + _parts(right)[1] - _parts(left)[1]
    (a, b), valid = _unscaled_columns(left, right)
    zero = b == 0
    b, valid = np.where(zero, 1, b), valid & ~zero
    step = _SAFE_DIGITS - count_digits(right)  # digits of the quotient computed per round
    if a.dtype != object and 0 <= shift <= _SAFE_DIGITS and step > 0 and count_digits(left) <= _SAFE_DIGITS:
        quotient = _divide_long(a, b, valid, shift, step)
        if count_digits(quotient) <= precision:
            return _relabel(quotient, precision, scale)
    a, b = a.astype(object) * 10 ** max(shift, 0), b.astype(object) * 10 ** max(-shift, 0)
    return build(_divide_half_up(a, b), valid, precision, scale)


def _divide_long(a: Integers, b: Integers, valid: Mask, shift: int, step: int) -> Value:
    """a · 10^shift / b, rounded half up, by long division within 64 bits, `step` digits a round."""
    size = np.abs(b)
    whole, rest = np.divmod(np.abs(a), size)
    fraction = np.zeros_like(whole)
    for done in range(0, shift, step):
        power = 10 ** min(step, shift - done)
        next_digits, rest = np.divmod(rest * power, size)
        fraction = fraction * power + next_digits
    fraction += 2 * rest >= size
    power = pa.scalar(Decimal(10**shift), pa.decimal128(shift + 1, 0))
    wide = arithmetic(build(whole, valid, _SAFE_DIGITS, 0), power, "*", MAX_PRECISION, 0)
    quotient = arithmetic(wide, build(fraction, valid, _SAFE_DIGITS + 1, 0), "+", MAX_PRECISION, 0)
    return pc.if_else(pa.array((a < 0) != (b < 0)), pc.negate(quotient), quotient)


def remainder(left: Value, right: Value, precision: int, scale: int) -> Value:
    """left % right with the sign of left; NULL where right is zero."""
    (a, b), valid = _unscaled_columns(left, right)
    a = a.astype(object) * 10 ** (scale - _parts(left)[1])
    b = b.astype(object) * 10 ** (scale - _parts(right)[1])
    zero = b == 0
    rest = np.abs(a) % np.abs(np.where(zero, 1, b))
    return build(np.where(a < 0, -rest, rest), valid & ~zero, precision, scale)


def rescale(value: Value, precision: int, scale: int) -> Value:
    """The value as decimal(precision, scale), rounded half up."""
    p, s = _parts(value)
    if p - s > precision - scale or scale < s:
        value = narrow(value)
        p, s = _parts(value)
    if scale >= s and p - s <= precision - scale:
        return value.cast(pa.decimal128(precision, scale))
    if scale < s and p < MAX_PRECISION:
        rounded = pc.round(_relabel(value, MAX_PRECISION), scale, round_mode=_HALF_UP)
        shorter = rounded.cast(pa.decimal128(MAX_PRECISION, scale))
        if count_digits(shorter) <= precision:
            return _relabel(shorter, precision)
    (integers,), valid = _unscaled_columns(value)
    return build(_shift_scale(integers.astype(object), scale - s), valid, precision, scale)


def round_to(value: Value, precision: int, scale: int, mode: str) -> Value:
    """Rounds to `scale` by one of Arrow's rounding modes; unsafe if the result does not fit `precision`."""
    if count_digits(value) == MAX_PRECISION:
        (integers,), valid = _unscaled_columns(value)
        by = 10 ** (_parts(value)[1] - scale)
        numbers = integers.astype(object)
        by_mode = {"down": numbers // by, "up": -(-numbers // by), _HALF_UP: _divide_half_up(numbers, np.array(by))}
        return build(by_mode[mode], valid, precision, scale)
    rounded = pc.round(_relabel(value, MAX_PRECISION), scale, round_mode=mode)
    return _relabel(rounded.cast(pa.decimal128(MAX_PRECISION, scale)), precision)


def to_double(value: Value) -> Value:
    """The nearest double."""
    scale = _parts(value)[1]
    (integers,), valid = _unscaled_columns(value)
    if scale <= 22 and integers.dtype != object and len(integers) and np.abs(integers).max() < _EXACT_DOUBLE:
        doubles = integers / 10.0**scale
    else:
        doubles = (integers.astype(object) / 10**scale).astype(np.float64)
    return pa.array(doubles, mask=~valid)


def to_integer(value: Value, bits: int) -> Value:
    """The integer part; the low bits of an integer part that is too large."""
    scale = _parts(value)[1]
    (integers,), valid = _unscaled_columns(value)
    numbers = integers.astype(object)
    whole = np.where(numbers < 0, -(-numbers // 10**scale), numbers // 10**scale)
    half = 1 << (bits - 1)
    wrapped = (whole + half) % (2 * half) - half
    return pa.array(wrapped.astype(f"int{bits}"), mask=~valid)


def narrow(value: Value) -> Value:
    """The same values, with the precision that they really need."""
    return _relabel(value, max(count_digits(value), _parts(value)[1], 1))


def count_digits(value: Value) -> int:
    """The number of digits of the longest value."""
    extremes = (value,) if isinstance(value, pa.Scalar) else tuple(pc.min_max(value).values())
    numbers = [e.as_py() for e in extremes]
    return max((len(n.as_tuple().digits) for n in numbers if n is not None), default=1)


def build(integers: Integers, valid: Mask, precision: int, scale: int) -> Value:
    """Decimals from unscaled integers; NULL if not valid or with too many digits."""
    if integers.dtype == object or precision <= _SAFE_DIGITS:
        limit = 10**precision
        valid = valid & ((integers < limit) & (integers > -limit)).astype(bool)
    integers = np.where(valid, integers, 0)
    pairs = np.empty((len(integers), 2), dtype=np.int64)
    if integers.dtype == object:
        pairs[:, 0] = (integers & _LOW).astype(np.uint64).view(np.int64)
        pairs[:, 1] = (integers >> 64).astype(np.int64)
    else:
        pairs[:, 0] = integers
        pairs[:, 1] = integers >> 63
    bitmap = None if valid.all() else pa.array(valid).buffers()[1]
    return pa.Array.from_buffers(pa.decimal128(precision, scale), len(pairs), [bitmap, pa.py_buffer(pairs)])


def _parts(value: Value) -> tuple[int, int]:
    return value.type.precision, value.type.scale


def _relabel(value: Value, precision: int, scale: int | None = None) -> Value:
    """The same digits with another precision and scale; unsafe if they do not fit."""
    kind = pa.decimal128(precision, value.type.scale if scale is None else scale)
    if isinstance(value, pa.Scalar):
        return pa.scalar(value.as_py(), kind)
    return pa.Array.from_buffers(kind, len(value), value.buffers(), offset=value.offset)


def _unscaled_columns(*values: Value) -> tuple[list[Integers], Mask]:
    """The unscaled integers of each value (0 for NULL), and the rows in which no value is NULL."""
    rows = max(1 if isinstance(v, pa.Scalar) else len(v) for v in values)
    if any(not isinstance(v, pa.Scalar) and len(v) == 0 for v in values):
        rows = 0
    arrays = [pa.repeat(v, rows) if isinstance(v, pa.Scalar) else v for v in values]
    valid = np.ones(rows, dtype=bool)
    for array in arrays:
        if array.null_count:
            valid &= array.is_valid().to_numpy(zero_copy_only=False)
    return [_unscaled(array) for array in arrays], valid


def _unscaled(array: pa.Array) -> Integers:
    if len(array) == 0:
        return np.empty(0, dtype=np.int64)
    pairs = np.frombuffer(array.buffers()[1], dtype=np.int64).reshape(-1, 2)[array.offset : array.offset + len(array)]
    low, high = pairs[:, 0], pairs[:, 1]
    if array.null_count:
        valid = array.is_valid().to_numpy(zero_copy_only=False)
        low, high = np.where(valid, low, 0), np.where(valid, high, 0)
    if np.array_equal(high, low >> 63):
        return low
    return np.asarray(high.astype(object) * (1 << 64) + low.view(np.uint64).astype(object))


def _shift_scale(integers: Integers, by: int) -> Integers:
    """Raises the scale of Python integers by `by` digits; a negative `by` rounds half up."""
    if by < 0:
        return _divide_half_up(integers, np.array(10**-by, dtype=object))
    return np.asarray(integers * 10**by)


def _divide_half_up(integers: Integers, divisors: Integers) -> Integers:
    """integers / divisors, rounded half up (halves away from zero)."""
    size = np.abs(divisors)
    quotient = (2 * np.abs(integers) + size) // (2 * size)
    return np.asarray(np.where((integers < 0) != (divisors < 0), -quotient, quotient))
