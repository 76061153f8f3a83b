"""Converts one Python value to a column's type. A value that would have to be rounded, wrapped or truncated is refused.

    DECIMAL, DATE, TIMESTAMP, INTERVAL   also their text; a decimal also from an integer or a float
    ARRAY                                a list, a tuple or a NumPy array
    STRUCT                               a mapping of field names, in any case; an omitted field is NULL
    MAP                                  a mapping, or pairs of key and value; NULL keys and equal keys are refused
    NULL                                 None, pandas' NA and NaT, and NaN if the type is not a float

NumPy scalars are accepted like the Python values they stand for.
"""

from __future__ import annotations

import datetime
import decimal
import re
from collections.abc import Callable, Iterable, Mapping
from typing import Any

import numpy as np
import pyarrow as pa

from tailrace import types

_INTERVAL = re.compile(r"(?:interval ')?([-+]?)(\d+) (\d\d?):(\d\d):(\d\d)(?:\.(\d{1,6}))?(?:' day to second)?", re.I)
_LONGEST_INTERVAL = datetime.timedelta(microseconds=(1 << 63) - 1)


class Misfit(ValueError):
    """A value does not fit a type.

    `what` describes it. `path` leads to it inside the value of the column (`[2].price`); "" is the value itself.
    """

    def __init__(self, what: str, kind: pa.DataType, path: str = "") -> None:
        super().__init__(what)
        self.what, self.kind, self.path = what, kind, path

    def inside(self, place: str) -> Misfit:
        return Misfit(self.what, self.kind, place + self.path)


def brief(value: Any) -> str:
    """The value's repr, cut to 60 characters for an error message."""
    try:
        text = repr(value)
    except RecursionError:
        text = f"a {type(value).__name__} nested too deeply"
    return text if len(text) <= 60 else text[:57] + "..."


def to_value(value: Any, kind: pa.DataType) -> Any:
    """The value as type `kind`; `Misfit` if it does not fit."""
    if value is None:
        return None
    try:
        return _convert(value, kind)
    except Misfit:
        raise
    except _FAULTS:
        pass  # look for the values of other libraries only now: most values are Python's own
    if _is_missing(value, kind):
        return None
    try:
        return _convert(_from_numpy(value), kind)
    except _FAULTS:
        raise Misfit(brief(value), kind) from None


_FAULTS = (ValueError, TypeError, ArithmeticError, AttributeError)


def _is_missing(value: Any, kind: pa.DataType) -> bool:
    """Whether the value stands for NULL in pandas or NumPy."""
    if isinstance(value, float):
        return value != value and not pa.types.is_floating(kind)
    if isinstance(value, np.datetime64 | np.timedelta64):
        return bool(np.isnat(value))
    return type(value).__name__ in ("NAType", "NaTType") and type(value).__module__.startswith("pandas.")


def _from_numpy(value: Any) -> Any:
    """The Python value of a NumPy scalar; ValueError for any other value."""
    _require(value, isinstance(value, np.generic))
    if not isinstance(value, np.datetime64 | np.timedelta64):
        return value.item()
    micros: Any = value.astype(f"{value.dtype.kind}8[us]")
    _require(value, bool(micros.astype(value.dtype) == value and micros == value))  # no digits are lost
    return micros.item()


def _convert(value: Any, kind: pa.DataType) -> Any:
    if pa.types.is_boolean(kind):
        return _require(value, isinstance(value, bool))
    if pa.types.is_integer(kind):
        if hasattr(value, "__index__") and not isinstance(value, bool):
            value = value.__index__()
        _require(value, isinstance(value, int) and not isinstance(value, bool))
        bound = 1 << (kind.bit_width - 1)
        return _require(value, -bound <= value < bound)
    if pa.types.is_floating(kind):
        _require(value, not isinstance(value, bool | str | bytes | np.datetime64 | np.timedelta64))
        return float(value)
    if pa.types.is_string(kind):
        _require(value, isinstance(value, str))
        value.encode()  # refuses lone surrogates
        return value
    if pa.types.is_binary(kind):
        return bytes(_require(value, isinstance(value, bytes | bytearray | memoryview)))
    for applies, convert in _OTHERS:
        if applies(kind):
            return convert(value, kind)
    raise ValueError(value)


def _require(value: Any, fits: bool) -> Any:
    if not fits:
        raise ValueError(value)
    return value


def _to_decimal(value: Any, kind: pa.DataType) -> decimal.Decimal:
    if isinstance(value, float):
        value = repr(value)
    _require(value, not isinstance(value, bool | bytes))
    number = decimal.Decimal(value)
    with decimal.localcontext(prec=60) as context:
        context.traps[decimal.Inexact] = True
        number = number.quantize(decimal.Decimal(1).scaleb(-kind.scale))
    _require(number, number.is_finite() and number.copy_abs() < decimal.Decimal(10) ** (kind.precision - kind.scale))
    return number


def _to_date(value: Any, _: pa.DataType) -> datetime.date:
    if isinstance(value, str):
        return datetime.date.fromisoformat(value)
    if isinstance(value, datetime.datetime):
        _require(value, value.time() == datetime.time() and not getattr(value, "nanosecond", 0))
        return value.date()
    return _require(value, isinstance(value, datetime.date))  # type: ignore[no-any-return]


def _to_timestamp(value: Any, kind: pa.DataType) -> datetime.datetime:
    if isinstance(value, str):
        value = datetime.datetime.fromisoformat(value)
    elif isinstance(value, datetime.date) and not isinstance(value, datetime.datetime):
        value = datetime.datetime(value.year, value.month, value.day)
    _require(value, isinstance(value, datetime.datetime) and not getattr(value, "nanosecond", 0))
    _require(value, value == value)  # pandas' NaT is a datetime, too
    if kind.tz is None:
        return _require(value, value.tzinfo is None)  # type: ignore[no-any-return]
    if value.tzinfo is None:
        return value.replace(tzinfo=datetime.UTC)  # type: ignore[no-any-return]
    return value.astimezone(datetime.UTC)  # type: ignore[no-any-return]


def _to_interval(value: Any, _: pa.DataType) -> datetime.timedelta:
    if isinstance(value, str):
        value = _parse_interval(value)
    _require(value, isinstance(value, datetime.timedelta) and not getattr(value, "nanoseconds", 0))
    return _require(value, abs(value) <= _LONGEST_INTERVAL)  # type: ignore[no-any-return]


def _parse_interval(text: str) -> datetime.timedelta:
    parsed = _INTERVAL.fullmatch(text.strip())
    if parsed is None:
        raise ValueError(text)
    days, hours, minutes, seconds = (int(parsed[i]) for i in range(2, 6))
    _require(text, hours < 24 and minutes < 60 and seconds < 60)
    micros = int((parsed[6] or "").ljust(6, "0"))
    length = datetime.timedelta(days=days, hours=hours, minutes=minutes, seconds=seconds, microseconds=micros)
    return -length if parsed[1] == "-" else length


def interval_text(value: datetime.timedelta) -> str:
    """An interval as Spark writes it between the quotes: `-1 02:03:04.500000`."""
    length = abs(value)
    clock = (
        datetime.datetime.min + datetime.timedelta(seconds=length.seconds, microseconds=length.microseconds)
    ).time()
    return f"{'-' if value < datetime.timedelta() else ''}{length.days} {clock.isoformat()}"


# nested values


def _to_list(value: Any, kind: pa.DataType) -> list[Any]:
    _require(value, isinstance(value, list | tuple | np.ndarray))
    return [_to_part(part, kind.value_type, f"[{i}]") for i, part in enumerate(value)]


def _to_struct(value: Any, kind: pa.DataType) -> dict[str, Any]:
    _require(value, isinstance(value, Mapping))
    known = {field.name: field.type for field in kind}
    spelled = {name.lower(): name for name in known}
    given = {}
    for name, part in value.items():
        own = name if name in known else spelled.get(str(name).lower())
        if own is None:
            raise Misfit(f"the field {brief(name)}", kind)
        given[own] = _to_part(part, known[own], f".{own}")
    return {name: given.get(name) for name in known}


def _to_pairs(value: Any, kind: pa.DataType) -> list[tuple[Any, Any]]:
    _require(value, isinstance(value, Mapping | list | tuple | np.ndarray))
    pairs: Iterable[Any] = value.items() if isinstance(value, Mapping) else value
    converted, seen = [], set()
    for key, item in pairs:
        own = _to_part(key, kind.key_type, " (a key)")
        identity = _identity(own)
        if own is None or identity in seen:
            raise Misfit("a NULL key" if own is None else f"a second key {brief(key)}", kind)
        seen.add(identity)
        converted.append((own, _to_part(item, kind.item_type, f"[{own!r}]")))
    return converted


def _to_part(value: Any, kind: pa.DataType, place: str) -> Any:
    try:
        return to_value(value, kind)
    except Misfit as misfit:
        raise misfit.inside(place) from None


def _identity(value: Any) -> Any:
    """A hashable form of a map key. Keys that are equal in SQL have equal forms: all NaNs, and both zeros."""
    if isinstance(value, float):
        return "NaN" if value != value else value
    if isinstance(value, Mapping):
        return tuple((name, _identity(part)) for name, part in value.items())
    return tuple(map(_identity, value)) if isinstance(value, list | tuple) else value


_OTHERS: tuple[tuple[Callable[[pa.DataType], bool], Callable[[Any, pa.DataType], Any]], ...] = (
    (pa.types.is_decimal, _to_decimal),
    (pa.types.is_date, _to_date),
    (pa.types.is_timestamp, _to_timestamp),
    (pa.types.is_duration, _to_interval),
    (pa.types.is_map, _to_pairs),
    (pa.types.is_list, _to_list),
    (pa.types.is_struct, _to_struct),
)


def type_text(kind: pa.DataType) -> str:
    """The name of a type, for errors; the fields of a struct keep their case."""
    text = types.name(kind)
    return text if "struct<" in text else text.upper()
