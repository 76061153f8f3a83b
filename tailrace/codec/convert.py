"""Converts rows from Python, pandas or Arrow to a record batch of the table's types; errors name the bad value.

Strings are accepted for decimals, dates and timestamps, and integers for decimals and floats. A value that would have
to be rounded, wrapped or truncated is refused.
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
    """`rows` as a batch of the given columns (default: all). A column missing from a row becomes NULL."""
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
    given = {_column_name(table, 0, n): n for n in rows.schema.names}
    arrays = []
    for name in names:
        kind = table.schema.field(name).type
        if name not in given:
            arrays.append(pa.nulls(rows.num_rows, kind))
            continue
        array = rows.column(given[name])
        if isinstance(array, pa.ChunkedArray):
            array = array.combine_chunks()
        if array.type != kind:
            array = _cast(array, name, kind)
        arrays.append(array)
    return pa.RecordBatch.from_arrays(arrays, schema=pa.schema([table.schema.field(n) for n in names]))


def _column_name(table: TableDef, row: int, name: str) -> str:
    """The table's spelling of a column name, which is case-insensitive; UnknownColumn if the table has none."""
    if name in table.schema.names:
        return name
    for own in table.schema.names:
        if own.lower() == str(name).lower():
            return str(own)
    raise UnknownColumn(row=row, table=table.name, column=name, columns=", ".join(table.schema.names))


def _cast(array: pa.Array, name: str, kind: pa.DataType) -> pa.Array:
    if pa.types.is_decimal(kind) and not _is_number(array.type) and not short_decimals(array):
        return _convert_each(array.to_pylist(), name, kind)
    try:
        cast = array.cast(kind)
        if _may_round(array.type, kind) and cast.cast(array.type) != array:
            return _convert_each(array.to_pylist(), name, kind)
        return cast
    except (pa.ArrowInvalid, pa.ArrowNotImplementedError, pa.ArrowTypeError):
        return _convert_each(array.to_pylist(), name, kind)


def short_decimals(texts: pa.Array) -> bool:
    """Whether Arrow can parse these texts as decimals. Arrow 26 crashes on one with many digits after the point."""
    if not is_text(texts.type):
        return False
    longest = pc.max(pc.binary_length(texts)).as_py() or 0
    return longest <= LONGEST_DECIMAL and not pc.any(pc.match_substring(texts, "e", ignore_case=True)).as_py()


def _is_number(kind: pa.DataType) -> bool:
    return bool(pa.types.is_integer(kind) or pa.types.is_floating(kind) or pa.types.is_decimal(kind))


def _may_round(given: pa.DataType, kind: pa.DataType) -> bool:
    """Whether a cast that Arrow considers safe may drop digits or the time of day."""
    return (pa.types.is_floating(given) and not pa.types.is_floating(kind)) or (
        pa.types.is_timestamp(given) and pa.types.is_date(kind)
    )


def _from_dicts(table: TableDef, rows: Sequence[Mapping[str, Any]], names: list[str]) -> pa.RecordBatch:
    expected = set(names)
    dicts: list[Any] = [rows] if isinstance(rows, Mapping) else list(rows)
    for number, row in enumerate(dicts):
        if not isinstance(row, Mapping):
            value, expected_type = brief(row), "a dict of columns"
            text = f"row {number} is {value}; expected {expected_type}; nothing was written"
            raise BadValue(row=number, column="(row)", value=value, type=expected_type, text=text)
        if not row.keys() <= expected:
            respelled = {_column_name(table, number, n): v for n, v in row.items()}
            if not respelled.keys() <= expected:
                extra = next(n for n in respelled if n not in expected)
                raise UnknownColumn(row=number, table=table.name, column=extra, columns=", ".join(names))
            dicts[number] = respelled
    arrays = [array_of([row.get(name) for row in dicts], name, table.schema.field(name).type) for name in names]
    return pa.RecordBatch.from_arrays(arrays, schema=pa.schema([table.schema.field(n) for n in names]))


def array_of(values: list[Any], name: str, kind: pa.DataType) -> pa.Array:
    """Python values as an Arrow array. Arrow converts them only if all have the exact Python type of the column.

    For those Arrow is as strict as `to_value`; other values are converted one by one.
    """
    python_type = _PYTHON_TYPES.get(kind.id)
    if python_type is None or not all(v is None or type(v) is python_type for v in values):
        return _convert_each(values, name, kind)
    try:
        return pa.array(values, kind)
    except (pa.ArrowInvalid, pa.ArrowTypeError, OverflowError, UnicodeEncodeError):
        return _convert_each(values, name, kind)


_PYTHON_TYPES: dict[int, type] = {
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


def _convert_each(values: Sequence[Any], name: str, kind: pa.DataType) -> pa.Array:
    converted = []
    for number, value in enumerate(values):
        try:
            converted.append(None if value is None else to_value(value, kind))
        except (ValueError, TypeError, ArithmeticError, UnicodeError):
            raise BadValue(row=number, column=name, value=brief(value), type=types.name(kind).upper()) from None
    return pa.array(converted, kind)


def brief(value: Any) -> str:
    """The value's repr, cut to 60 characters for an error message."""
    try:
        text = repr(value)
    except RecursionError:
        text = f"a {type(value).__name__} nested too deeply"
    return text if len(text) <= 60 else text[:57] + "..."


def to_value(value: Any, kind: pa.DataType) -> Any:
    """Converts one Python value to type `kind`; ValueError or TypeError if it does not fit."""
    if pa.types.is_boolean(kind):
        return _require(value, isinstance(value, bool))
    if pa.types.is_integer(kind):
        if hasattr(value, "__index__") and not isinstance(value, bool):
            value = value.__index__()
        _require(value, isinstance(value, int) and not isinstance(value, bool))
        bound = 1 << (kind.bit_width - 1)
        return _require(value, -bound <= value < bound)
    if pa.types.is_floating(kind):
        _require(value, not isinstance(value, bool | str | bytes))
        return float(value)
    if pa.types.is_decimal(kind):
        return _to_decimal(value, kind)
    if pa.types.is_string(kind):
        _require(value, isinstance(value, str))
        value.encode()  # refuses lone surrogates
        return value
    if pa.types.is_binary(kind):
        return bytes(_require(value, isinstance(value, bytes | bytearray | memoryview)))
    if pa.types.is_date(kind):
        return _to_date(value)
    return _to_timestamp(value, kind)


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


def _to_date(value: Any) -> datetime.date:
    if isinstance(value, str):
        return datetime.date.fromisoformat(value)
    if isinstance(value, datetime.datetime):
        _require(value, value.time() == datetime.time())
        return value.date()
    return _require(value, isinstance(value, datetime.date))  # type: ignore[no-any-return]


def _to_timestamp(value: Any, kind: pa.DataType) -> datetime.datetime:
    if isinstance(value, str):
        value = datetime.datetime.fromisoformat(value)
    elif isinstance(value, datetime.date) and not isinstance(value, datetime.datetime):
        value = datetime.datetime(value.year, value.month, value.day)
    _require(value, isinstance(value, datetime.datetime))
    if kind.tz is None:
        return _require(value, value.tzinfo is None)  # type: ignore[no-any-return]
    if value.tzinfo is None:
        return value.replace(tzinfo=datetime.UTC)  # type: ignore[no-any-return]
    return value.astimezone(datetime.UTC)  # type: ignore[no-any-return]


def key_values(name: str, columns: Sequence[types.Column], key: Any, *, prefix: bool = False) -> list[Any]:
    """Converts a user's key (a value, a tuple, a list or a dict) to values of the column types."""
    names = [c.name for c in columns]
    if isinstance(key, Mapping):
        missing = [n for n in names if n not in key]
        if missing or len(key) != len(names):
            given = ", ".join(sorted(map(str, key))) or "none"
            raise bad_key(name, columns, f"expected all key columns, got {given}")
        key = tuple(key[n] for n in names)
    values = list(key) if isinstance(key, tuple | list) else [key]
    if len(values) > len(names) or (len(values) < len(names) and not prefix):
        raise wrong_key_length(name, columns, len(values), prefix)
    result = []
    for value, column in zip(values, columns, strict=False):
        try:
            result.append(None if value is None else to_value(value, types.arrow(column.type)))
        except (ValueError, TypeError, ArithmeticError):
            raise bad_key_value(name, columns, column, value) from None
    return result


def bad_key(name: str, columns: Sequence[types.Column], reason: str) -> BadKey:
    return BadKey(name=name, columns=", ".join(c.name for c in columns) or "none", reason=reason)


def wrong_key_length(name: str, columns: Sequence[types.Column], given: int, prefix: bool) -> BadKey:
    """The error for a key with too many or too few values. A `prefix` may have fewer values than columns."""
    count = len(columns)
    limit = "at most " if prefix else ""
    return bad_key(name, columns, f"expected {limit}{count} value{'' if count == 1 else 's'}, got {given}")


def bad_key_value(name: str, columns: Sequence[types.Column], column: types.Column, value: Any) -> BadKey:
    return bad_key(name, columns, f"{brief(value)} does not fit column {column.name!r} of type {column.type.upper()}")
