"""Decimals: results rounded half up, NULL where they have too many digits.

Arrow's own arithmetic is exact while a result type has at most 38 digits. A wider one is tried with the
digits that the values really have; what is left is worked out on Python's integers.
"""

from __future__ import annotations

from decimal import Decimal
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from tailrace.rules.arrow.coercion import MAX_PRECISION, natural
from tailrace.rules.arrow.tree import Value

Integers = npt.NDArray[Any]  # int64, or object: Python's integers
Mask = npt.NDArray[np.bool_]
_LOW = (1 << 64) - 1
_HALF_UP = "half_towards_infinity"
_OPERATIONS = {"+": pc.add, "-": pc.subtract, "*": pc.multiply}
_SAFE_DIGITS = 18  # twice a number of so many digits, and another one, still make an int64
_EXACT_DOUBLE = 1 << 53


def arithmetic(left: Value, right: Value, operator: str, precision: int, scale: int) -> Value:
    """left + right, left - right or left * right as decimal(precision, scale)."""
    for a, b in ((left, right), (fitted(left), fitted(right))):
        if natural(operator, _parts(a), _parts(b))[0] <= MAX_PRECISION:
            return rescaled(_OPERATIONS[operator](a, b), precision, scale)
    (a, b), valid = _integers(left, right)
    a, b = a.astype(object), b.astype(object)
    (_, s1), (_, s2) = _parts(left), _parts(right)
    if operator == "*":
        exact, have = a * b, s1 + s2
    else:
        have = max(s1, s2)
        a, b = a * 10 ** (have - s1), b * 10 ** (have - s2)
        exact = a + b if operator == "+" else a - b
    return made(_shifted(exact, scale - have), valid, precision, scale)


def divided(left: Value, right: Value, precision: int, scale: int) -> Value:
    """left / right; NULL where right is zero."""
    shift = scale + _parts(right)[1] - _parts(left)[1]
    (a, b), valid = _integers(left, right)
    zero = b == 0
    b, valid = np.where(zero, 1, b), valid & ~zero
    step = _SAFE_DIGITS - digits(right)  # of the quotient, that can be had at once
    if a.dtype != object and 0 <= shift <= _SAFE_DIGITS and step > 0 and digits(left) <= _SAFE_DIGITS:
        found = _long_division(a, b, valid, shift, step)
        if digits(found) <= precision:
            return _labelled(found, precision, scale)
    a, b = a.astype(object) * 10 ** max(shift, 0), b.astype(object) * 10 ** max(-shift, 0)
    return made(_quotients(a, b), valid, precision, scale)


def _long_division(a: Integers, b: Integers, valid: Mask, shift: int, step: int) -> Value:
    """a · 10^shift / b rounded half up: the whole part, then some digits at a time, all within 64 bits."""
    size = np.abs(b)
    whole, rest = np.divmod(np.abs(a), size)
    fraction = np.zeros_like(whole)
    for done in range(0, shift, step):
        power = 10 ** min(step, shift - done)
        more, rest = np.divmod(rest * power, size)
        fraction = fraction * power + more
    fraction += 2 * rest >= size
    power = pa.scalar(Decimal(10**shift), pa.decimal128(shift + 1, 0))
    wide = arithmetic(made(whole, valid, _SAFE_DIGITS, 0), power, "*", MAX_PRECISION, 0)
    found = arithmetic(wide, made(fraction, valid, _SAFE_DIGITS + 1, 0), "+", MAX_PRECISION, 0)
    return pc.if_else(pa.array((a < 0) != (b < 0)), pc.negate(found), found)


def remainder(left: Value, right: Value, precision: int, scale: int) -> Value:
    """left % right with the sign of left; NULL where right is zero."""
    (a, b), valid = _integers(left, right)
    a = a.astype(object) * 10 ** (scale - _parts(left)[1])
    b = b.astype(object) * 10 ** (scale - _parts(right)[1])
    zero = b == 0
    rest = np.abs(a) % np.abs(np.where(zero, 1, b))
    return made(np.where(a < 0, -rest, rest), valid & ~zero, precision, scale)


def rescaled(value: Value, precision: int, scale: int) -> Value:
    """The value as decimal(precision, scale)."""
    p, s = _parts(value)
    if p - s > precision - scale or scale < s:
        value = fitted(value)
        p, s = _parts(value)
    if scale >= s and p - s <= precision - scale:
        return value.cast(pa.decimal128(precision, scale))
    if scale < s and p < MAX_PRECISION:
        rounded = pc.round(_labelled(value, MAX_PRECISION), scale, round_mode=_HALF_UP)
        shorter = rounded.cast(pa.decimal128(MAX_PRECISION, scale))
        if digits(shorter) <= precision:
            return _labelled(shorter, precision)
    (integers,), valid = _integers(value)
    return made(_shifted(integers.astype(object), scale - s), valid, precision, scale)


def rounded(value: Value, precision: int, scale: int, mode: str) -> Value:
    """The value with `scale` digits after the point, by Arrow's name of a rounding; precision suffices."""
    if digits(value) == MAX_PRECISION:
        (integers,), valid = _integers(value)
        by = 10 ** (_parts(value)[1] - scale)
        numbers = integers.astype(object)
        made_whole = {"down": numbers // by, "up": -(-numbers // by), _HALF_UP: _quotients(numbers, np.array(by))}
        return made(made_whole[mode], valid, precision, scale)
    whole = pc.round(_labelled(value, MAX_PRECISION), scale, round_mode=mode)
    return _labelled(whole.cast(pa.decimal128(MAX_PRECISION, scale)), precision)


def to_double(value: Value) -> Value:
    """The nearest double."""
    scale = _parts(value)[1]
    (integers,), valid = _integers(value)
    if scale <= 22 and integers.dtype != object and len(integers) and np.abs(integers).max() < _EXACT_DOUBLE:
        found = integers / 10.0**scale
    else:
        found = (integers.astype(object) / 10**scale).astype(np.float64)
    return pa.array(found, mask=~valid)


def to_integer(value: Value, bits: int) -> Value:
    """The whole part, its low bits where it is too large."""
    scale = _parts(value)[1]
    (integers,), valid = _integers(value)
    numbers = integers.astype(object)
    whole = np.where(numbers < 0, -(-numbers // 10**scale), numbers // 10**scale)
    half = 1 << (bits - 1)
    wrapped = (whole + half) % (2 * half) - half
    return pa.array(wrapped.astype(f"int{bits}"), mask=~valid)


def fitted(value: Value) -> Value:
    """The same value, typed by the digits it really has."""
    return _labelled(value, max(digits(value), _parts(value)[1], 1))


def digits(value: Value) -> int:
    """How many digits the longest value has."""
    ends = (value,) if isinstance(value, pa.Scalar) else tuple(pc.min_max(value).values())
    found = [e.as_py() for e in ends]
    return max((len(d.as_tuple().digits) for d in found if d is not None), default=1)


def made(integers: Integers, valid: Mask, precision: int, scale: int) -> Value:
    """Decimals of unscaled integers, NULL where one has too many digits."""
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


def _labelled(value: Value, precision: int, scale: int | None = None) -> Value:
    """The same digits under another precision, which they must fit, and scale."""
    kind = pa.decimal128(precision, value.type.scale if scale is None else scale)
    if isinstance(value, pa.Scalar):
        return pa.scalar(value.as_py(), kind)
    return pa.Array.from_buffers(kind, len(value), value.buffers(), offset=value.offset)


def _integers(*values: Value) -> tuple[list[Integers], Mask]:
    """Unscaled integers of each value, 0 where it is NULL, and where none is."""
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


def _shifted(integers: Integers, by: int) -> Integers:
    """Python's integers with `by` more digits after the point, rounded half up if it is negative."""
    if by < 0:
        return _quotients(integers, np.array(10**-by, dtype=object))
    return np.asarray(integers * 10**by)


def _quotients(integers: Integers, divisors: Integers) -> Integers:
    """integers / divisors rounded half up: away from zero."""
    size = np.abs(divisors)
    found = (2 * np.abs(integers) + size) // (2 * size)
    return np.asarray(np.where((integers < 0) != (divisors < 0), -found, found))
