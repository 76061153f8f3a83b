"""Dates (days since 1970-01-01) and timestamps (microseconds since then, in UTC as the session's zone is)."""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from tailrace.rules.arrow.numbers import with_nulls_of
from tailrace.rules.arrow.tree import Value
from tailrace.types import SCALARS

Days = npt.NDArray[np.int64]
DAY = 86_400_000_000
_DATE, _TIMESTAMP = SCALARS["date"], SCALARS["timestamp"]


def part(value: Value, name: str) -> Value:
    """year, month, ... of a date."""
    return with_nulls_of(value, _part(_numbers(value), name).astype(np.int32))


def _part(days: Days, name: str) -> npt.NDArray[Any]:
    if name == "dayofweek":
        return (days + 4) % 7 + 1
    if name == "weekday":
        return (days + 3) % 7
    if name == "week":  # of the year that holds the week's Thursday
        return (_part(days - (days + 3) % 7 + 3, "dayofyear") - 1) // 7 + 1
    dates = days.view("M8[D]")
    years, months = dates.astype("M8[Y]"), dates.astype("M8[M]")
    if name == "year":
        return years.astype(np.int64) + 1970
    if name == "dayofyear":
        return days - _days(years) + 1
    if name == "day":
        return days - _days(months) + 1
    month = months.astype(np.int64) % 12
    return month // 3 + 1 if name == "quarter" else month + 1


def _days(dates: npt.NDArray[Any]) -> Days:
    return dates.astype("M8[D]").astype(np.int64)


def time_part(value: Value, name: str) -> Value:
    """hour, minute or second of a timestamp."""
    unit, count = {"hour": (3_600_000_000, 24), "minute": (60_000_000, 60), "second": (1_000_000, 60)}[name]
    return with_nulls_of(value, (_numbers(value) // unit % count).astype(np.int32))


def date_plus(value: Value, days: Value) -> Value:
    return pc.add(value.cast(pa.int32()), days.cast(pa.int32())).cast(_DATE)


def date_minus(value: Value, days: Value) -> Value:
    return pc.subtract(value.cast(pa.int32()), days.cast(pa.int32())).cast(_DATE)


def days_between(end: Value, start: Value) -> Value:
    return pc.subtract(end.cast(pa.int32()), start.cast(pa.int32()))


def plus_months(value: Value, months: int) -> Value:
    """The same day of another month, or that month's last day."""
    return with_nulls_of(value, _plus_months(_numbers(value), months).astype(np.int32)).cast(_DATE)


def _plus_months(days: Days, months: int) -> Days:
    old = days.view("M8[D]").astype("M8[M]")
    new = old + np.timedelta64(months, "M")
    last = _days(new + np.timedelta64(1, "M")) - _days(new) - 1
    return np.asarray(_days(new) + np.minimum(days - _days(old), last))


def last_day(value: Value) -> Value:
    months = _numbers(value).view("M8[D]").astype("M8[M]")
    return with_nulls_of(value, (_days(months + np.timedelta64(1, "M")) - 1).astype(np.int32)).cast(_DATE)


def timestamp_plus_months(value: Value, months: int) -> Value:
    micros = _numbers(value)
    days, time = micros // DAY, micros % DAY
    return with_nulls_of(value, _plus_months(days, months) * DAY + time).cast(_TIMESTAMP)


def timestamp_plus(value: Value, micros: int) -> Value:
    return pc.add(value.cast(pa.int64()), pa.scalar(micros)).cast(_TIMESTAMP)


def date_of(value: Value) -> Value:
    return with_nulls_of(value, (_numbers(value) // DAY).astype(np.int32)).cast(_DATE)


def timestamp_of(value: Value) -> Value:
    """Midnight of a date; a date too far away for a timestamp is an error, as it is in Spark."""
    return pc.multiply_checked(value.cast(pa.int32()).cast(pa.int64()), pa.scalar(DAY)).cast(_TIMESTAMP)


def _numbers(value: Value) -> npt.NDArray[np.int64]:
    width = pa.int32() if pa.types.is_date(value.type) else pa.int64()
    return np.asarray(value.cast(width).fill_null(0).to_numpy()).astype(np.int64)
