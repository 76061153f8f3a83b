"""Kernels for dates (days since 1970-01-01) and timestamps (microseconds since then, in UTC like the session)."""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from tailrace.rules.arrow.numbers import restore_nulls
from tailrace.rules.arrow.tree import Value
from tailrace.types import SCALARS

Days = npt.NDArray[np.int64]
DAY = 86_400_000_000
_DATE, _TIMESTAMP = SCALARS["date"], SCALARS["timestamp"]


def date_part(value: Value, name: str) -> Value:
    """The year, month, ... of a date."""
    return restore_nulls(value, _date_part(_to_integers(value), name).astype(np.int32))


def _date_part(days: Days, name: str) -> npt.NDArray[Any]:
    if name == "dayofweek":
        return (days + 4) % 7 + 1
    if name == "weekday":
        return (days + 3) % 7
    if name == "week":  # ISO week: a week belongs to the year of its Thursday
        return (_date_part(days - (days + 3) % 7 + 3, "dayofyear") - 1) // 7 + 1
    dates = days.view("M8[D]")
    years, months = dates.astype("M8[Y]"), dates.astype("M8[M]")
    if name == "year":
        return years.astype(np.int64) + 1970
    if name == "dayofyear":
        return days - _to_days(years) + 1
    if name == "day":
        return days - _to_days(months) + 1
    month = months.astype(np.int64) % 12
    return month // 3 + 1 if name == "quarter" else month + 1


def _to_days(dates: npt.NDArray[Any]) -> Days:
    return dates.astype("M8[D]").astype(np.int64)


def time_part(value: Value, name: str) -> Value:
    """The hour, minute or second of a timestamp."""
    unit, count = {"hour": (3_600_000_000, 24), "minute": (60_000_000, 60), "second": (1_000_000, 60)}[name]
    return restore_nulls(value, (_to_integers(value) // unit % count).astype(np.int32))


def add_days(value: Value, days: Value) -> Value:
    return pc.add(value.cast(pa.int32()), days.cast(pa.int32())).cast(_DATE)


def subtract_days(value: Value, days: Value) -> Value:
    return pc.subtract(value.cast(pa.int32()), days.cast(pa.int32())).cast(_DATE)


def days_between(end: Value, start: Value) -> Value:
    return pc.subtract(end.cast(pa.int32()), start.cast(pa.int32()))


def add_months(value: Value, months: int) -> Value:
    """The same day `months` later, or the last day of a shorter month."""
    return restore_nulls(value, _add_months(_to_integers(value), months).astype(np.int32)).cast(_DATE)


def _add_months(days: Days, months: int) -> Days:
    old = days.view("M8[D]").astype("M8[M]")
    new = old + np.timedelta64(months, "M")
    last = _to_days(new + np.timedelta64(1, "M")) - _to_days(new) - 1
    return np.asarray(_to_days(new) + np.minimum(days - _to_days(old), last))


def last_day(value: Value) -> Value:
    months = _to_integers(value).view("M8[D]").astype("M8[M]")
    return restore_nulls(value, (_to_days(months + np.timedelta64(1, "M")) - 1).astype(np.int32)).cast(_DATE)


def add_months_to_timestamp(value: Value, months: int) -> Value:
    micros = _to_integers(value)
    days, time = micros // DAY, micros % DAY
    return restore_nulls(value, _add_months(days, months) * DAY + time).cast(_TIMESTAMP)


def add_micros(value: Value, micros: int) -> Value:
    return pc.add(value.cast(pa.int64()), pa.scalar(micros)).cast(_TIMESTAMP)


def unix_micros(value: Value) -> Value:
    return value.cast(pa.int64())


def timestamp_micros(value: Value) -> Value:
    return value.cast(_TIMESTAMP)


def to_date(value: Value) -> Value:
    return restore_nulls(value, (_to_integers(value) // DAY).astype(np.int32)).cast(_DATE)


def to_timestamp(value: Value) -> Value:
    """Midnight of a date. A date out of the range of timestamps is an error, as in Spark."""
    return pc.multiply_checked(value.cast(pa.int32()).cast(pa.int64()), pa.scalar(DAY)).cast(_TIMESTAMP)


def _to_integers(value: Value) -> npt.NDArray[np.int64]:
    """Days of a date, microseconds of a timestamp, 0 for NULL."""
    width = pa.int32() if pa.types.is_date(value.type) else pa.int64()
    return np.asarray(value.cast(width).fill_null(0).to_numpy()).astype(np.int64)
