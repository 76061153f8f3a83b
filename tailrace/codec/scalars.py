"""Converts single values between Python and the stored form, for point reads; `arrays` does it for columns."""

from __future__ import annotations

from collections.abc import Callable
from datetime import UTC, date, datetime, timedelta
from typing import Any

import numpy as np
import pyarrow as pa

from tailrace.codec.arrays import LONG_DIGITS, to_decimal

EPOCH = datetime(1970, 1, 1)
EPOCH_UTC = datetime(1970, 1, 1, tzinfo=UTC)
EPOCH_DAY = EPOCH.toordinal()
_MICROSECOND = timedelta(microseconds=1)

UNPACK: dict[np.dtype[Any], str] = {
    np.dtype("<u1"): "B",
    np.dtype("<i1"): "b",
    np.dtype("<i2"): "h",
    np.dtype("<i4"): "i",
    np.dtype("<u4"): "I",
    np.dtype("<i8"): "q",
    np.dtype("<f4"): "f",
    np.dtype("<f8"): "d",
    np.dtype(("<i8", (2,))): "16s",
}
"""The `struct` format code of each NumPy type in the fixed part of a row."""


def micros(value: datetime) -> int:
    """Microseconds since 1970. Like Arrow, treats a naive time as UTC."""
    return length(value - (EPOCH if value.tzinfo is None else EPOCH_UTC))


def length(value: timedelta) -> int:
    """The microseconds of an interval."""
    return value // _MICROSECOND


def days(value: date) -> int:
    """Days since 1970."""
    return value.toordinal() - EPOCH_DAY


def reader(kind: pa.DataType) -> Callable[[Any], Any]:
    """A function from the value that `struct` unpacks for a fixed-width type to the value that Arrow would give."""
    if pa.types.is_decimal128(kind):
        scale = kind.scale
        if kind.precision <= LONG_DIGITS:
            return lambda number: to_decimal(number, scale)
        return lambda words: to_decimal(int.from_bytes(words, "little", signed=True), scale)
    if pa.types.is_date32(kind):
        return lambda number: date.fromordinal(number + EPOCH_DAY)
    if pa.types.is_timestamp(kind):
        epoch = EPOCH_UTC if kind.tz else EPOCH
        return lambda number: epoch + timedelta(microseconds=number)
    if pa.types.is_duration(kind):
        return lambda number: timedelta(microseconds=number)
    return bool if pa.types.is_boolean(kind) else _identity


def _identity(value: Any) -> Any:
    return value
