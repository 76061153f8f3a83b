"""Rows from Python, pandas and Arrow as a record batch of the table's types, or an error that names the value.

Strings stand for decimals, dates and timestamps; integers for decimals and floats. Nothing is rounded,
wrapped or cut silently.
"""

from __future__ import annotations

import datetime
import decimal
from collections.abc import Mapping, Sequence
from typing import Any, TypeAlias

import pyarrow as pa
import pyarrow.compute as pc

from tailrace import types
from tailrace.codec.arrays import is_text
from tailrace.codec.schema import TableDef
from tailrace.errors import BadKey, BadValue, NullKey, UnknownColumn

LONGEST_DECIMAL = 60  # characters
Rows: TypeAlias = Any  # a sequence of dicts, pa.Table, pa.RecordBatch, or a pandas DataFrame


def to_batch(table: TableDef, rows: Rows, columns: Sequence[str] | None = None) -> pa.RecordBatch:
    """`rows` as a batch of the given columns (all by default; those a dict lacks become NULL)."""
    names = list(columns) if columns is not None else table.schema.names
    if hasattr(rows, "to_dict") and hasattr(rows, "columns") and not isinstance(rows, pa.Table):
        rows = pa.Table.from_pandas(rows, preserve_index=False)
    if isinstance(rows, pa.Table | pa.RecordBatch):
        batch = _from_arrow(table, rows, names)
    else:
        batch = _from_dicts(table, rows, names)
    for name in table.key:
        if name in names and batch.column(name).null_count:
            row = pc.index(batch.column(name).is_null(), True).as_py()
            raise NullKey(row=row, column=name, table=table.name)
    return batch


def _from_arrow(table: TableDef, rows: pa.Table | pa.RecordBatch, names: list[str]) -> pa.RecordBatch:
    given = {_known(table, 0, n): n for n in rows.schema.names}
    arrays = []
    for name in names:
        wanted = table.schema.field(name).type
        if name not in given:
            arrays.append(pa.nulls(rows.num_rows, wanted))
            continue
        array = rows.column(given[name])
        if isinstance(array, pa.ChunkedArray):
            array = array.combine_chunks()
        if array.type != wanted:
            array = _cast(array, name, wanted)
        arrays.append(array)
    return pa.RecordBatch.from_arrays(arrays, schema=pa.schema([table.schema.field(n) for n in names]))


def _known(table: TableDef, row: int, name: str) -> str:
    """The table's own spelling of a column name."""
    if name in table.schema.names:
        return name
    for own in table.schema.names:
        if own.lower() == str(name).lower():
            return str(own)
    raise UnknownColumn(row=row, table=table.name, column=name, columns=", ".join(table.schema.names))


def _cast(array: pa.Array, name: str, wanted: pa.DataType) -> pa.Array:
    if pa.types.is_decimal(wanted) and not _plain_number(array.type) and not short_decimals(array):
        return _by_value(array.to_pylist(), name, wanted)
    try:
        cast = array.cast(wanted)
        if _may_round(array.type, wanted) and cast.cast(array.type) != array:
            return _by_value(array.to_pylist(), name, wanted)
        return cast
    except (pa.ArrowInvalid, pa.ArrowNotImplementedError, pa.ArrowTypeError):
        return _by_value(array.to_pylist(), name, wanted)


def short_decimals(texts: pa.Array) -> bool:
    """Whether Arrow may read these as decimals: of one with many digits after the point it crashes (Arrow 26)."""
    if not is_text(texts.type):
        return False
    longest = pc.max(pc.binary_length(texts)).as_py() or 0
    return longest <= LONGEST_DECIMAL and not pc.any(pc.match_substring(texts, "e", ignore_case=True)).as_py()


def _plain_number(kind: pa.DataType) -> bool:
    return bool(pa.types.is_integer(kind) or pa.types.is_floating(kind) or pa.types.is_decimal(kind))


def _may_round(given: pa.DataType, wanted: pa.DataType) -> bool:
    """Casts that Arrow calls safe although they drop digits or the time of day."""
    return (pa.types.is_floating(given) and not pa.types.is_floating(wanted)) or (
        pa.types.is_timestamp(given) and pa.types.is_date(wanted)
    )


def _from_dicts(table: TableDef, rows: Sequence[Mapping[str, Any]], names: list[str]) -> pa.RecordBatch:
    wanted = set(names)
    listed: list[Any] = [rows] if isinstance(rows, Mapping) else list(rows)
    for number, row in enumerate(listed):
        if not isinstance(row, Mapping):
            raise BadValue(row=number, column="(row)", value=brief(row), type="a dict of columns")
        if not row.keys() <= wanted:
            fixed = {_known(table, number, n): v for n, v in row.items()}
            if not fixed.keys() <= wanted:
                extra = next(n for n in fixed if n not in wanted)
                raise UnknownColumn(row=number, table=table.name, column=extra, columns=", ".join(names))
            listed[number] = fixed
    arrays = []
    for name in names:
        arrays.append(array_of([row.get(name) for row in listed], name, table.schema.field(name).type))
    return pa.RecordBatch.from_arrays(arrays, schema=pa.schema([table.schema.field(n) for n in names]))


def array_of(values: list[Any], name: str, wanted: pa.DataType) -> pa.Array:
    """Python values as an Arrow array: all at once where Arrow is as strict as we are, else one by one."""
    exact = _EXACT.get(wanted.id)
    if exact is None or not all(v is None or type(v) is exact for v in values):
        return _by_value(values, name, wanted)
    try:
        return pa.array(values, wanted)
    except (pa.ArrowInvalid, pa.ArrowTypeError, OverflowError, UnicodeEncodeError):
        return _by_value(values, name, wanted)


_EXACT: dict[int, type] = {
    pa.bool_().id: bool,
    pa.int8().id: int,
    pa.int16().id: int,
    pa.int32().id: int,
    pa.int64().id: int,
    pa.float64().id: float,
    pa.string().id: str,
    pa.binary().id: bytes,
    pa.date32().id: datetime.date,
}


def _by_value(values: Sequence[Any], name: str, wanted: pa.DataType) -> pa.Array:
    converted = []
    for number, value in enumerate(values):
        try:
            converted.append(None if value is None else to_value(value, wanted))
        except (ValueError, TypeError, ArithmeticError, UnicodeError):
            raise BadValue(row=number, column=name, value=brief(value), type=types.name(wanted).upper()) from None
    return pa.array(converted, wanted)


def brief(value: Any) -> str:
    """A value as errors show it."""
    try:
        text = repr(value)
    except RecursionError:
        text = f"a {type(value).__name__} nested too deeply"
    return text if len(text) <= 60 else text[:57] + "..."


def to_value(value: Any, wanted: pa.DataType) -> Any:
    """One Python value of exactly the wanted type; ValueError or TypeError if it does not fit."""
    if pa.types.is_boolean(wanted):
        return _checked(value, isinstance(value, bool))
    if pa.types.is_integer(wanted):
        if hasattr(value, "__index__") and not isinstance(value, bool):
            value = value.__index__()
        _checked(value, isinstance(value, int) and not isinstance(value, bool))
        bound = 1 << (wanted.bit_width - 1)
        return _checked(value, -bound <= value < bound)
    if pa.types.is_floating(wanted):
        _checked(value, not isinstance(value, bool | str | bytes))
        return float(value)
    if pa.types.is_decimal(wanted):
        return _decimal(value, wanted)
    if pa.types.is_string(wanted):
        _checked(value, isinstance(value, str))
        value.encode()
        return value
    if pa.types.is_binary(wanted):
        return bytes(_checked(value, isinstance(value, bytes | bytearray | memoryview)))
    if pa.types.is_date(wanted):
        return _date(value)
    return _timestamp(value, wanted)


def _checked(value: Any, fits: bool) -> Any:
    if not fits:
        raise ValueError(value)
    return value


def _decimal(value: Any, wanted: pa.DataType) -> decimal.Decimal:
    if isinstance(value, float):
        value = repr(value)
    _checked(value, not isinstance(value, bool | bytes))
    number = decimal.Decimal(value)
    with decimal.localcontext(prec=60) as context:
        context.traps[decimal.Inexact] = True
        number = number.quantize(decimal.Decimal(1).scaleb(-wanted.scale))
    _checked(number, number.is_finite() and abs(number) < decimal.Decimal(10) ** (wanted.precision - wanted.scale))
    return number


def _date(value: Any) -> datetime.date:
    if isinstance(value, str):
        return datetime.date.fromisoformat(value)
    if isinstance(value, datetime.datetime):
        _checked(value, value.time() == datetime.time())
        return value.date()
    return _checked(value, isinstance(value, datetime.date))  # type: ignore[no-any-return]


def _timestamp(value: Any, wanted: pa.DataType) -> datetime.datetime:
    if isinstance(value, str):
        value = datetime.datetime.fromisoformat(value)
    elif isinstance(value, datetime.date) and not isinstance(value, datetime.datetime):
        value = datetime.datetime(value.year, value.month, value.day)
    _checked(value, isinstance(value, datetime.datetime))
    if wanted.tz is None:
        return _checked(value, value.tzinfo is None)  # type: ignore[no-any-return]
    if value.tzinfo is None:
        return value.replace(tzinfo=datetime.UTC)  # type: ignore[no-any-return]
    return value.astimezone(datetime.UTC)  # type: ignore[no-any-return]


def key_values(name: str, columns: Sequence[types.Column], key: Any, *, prefix: bool = False) -> list[Any]:
    """A key as given by a user (a value, a tuple, or a dict) as typed values."""
    names = [c.name for c in columns]
    if isinstance(key, Mapping):
        missing = [n for n in names if n not in key]
        if missing or len(key) != len(names):
            raise BadKey(name=name, columns=names, reason=f"got the columns {sorted(key)}")
        key = tuple(key[n] for n in names)
    values = list(key) if isinstance(key, tuple | list) else [key]
    if len(values) > len(names) or (len(values) < len(names) and not prefix):
        raise BadKey(name=name, columns=names, reason=f"got {len(values)} values")
    result = []
    for value, column in zip(values, columns, strict=False):
        try:
            result.append(None if value is None else to_value(value, types.arrow(column.type)))
        except (ValueError, TypeError, ArithmeticError):
            raise BadKey(
                name=name,
                columns=names,
                reason=f"{brief(value)} does not fit {column.name} {column.type.upper()}",
            ) from None
    return result
