"""Converts rows from Python, pandas or Arrow to a record batch of the table's types; errors name the bad value.

`python_values` says which values fit which types. Rows are counted from 1.
"""

from __future__ import annotations

import datetime
from collections.abc import Mapping, Sequence
from typing import Any, TypeAlias

import pyarrow as pa
import pyarrow.compute as pc

from tailrace import types
from tailrace.codec import nested_arrays
from tailrace.codec.arrays import is_text
from tailrace.codec.python_values import Misfit, brief, to_value, type_text
from tailrace.codec.schema import TableDef
from tailrace.errors import BadKey, BadValue, NullKey, UnknownColumn

LONGEST_DECIMAL = 60  # characters
Rows: TypeAlias = Any  # a sequence of dicts, pa.Table, pa.RecordBatch, or a pandas DataFrame


def to_batch(table: TableDef, rows: Rows, columns: Sequence[str] | None = None, first: int = 1) -> pa.RecordBatch:
    """`rows` as a batch of the given columns (default: all). A column missing from a row becomes NULL.

    `first` is the number of the first row, for errors.
    """
    names = list(columns) if columns is not None else table.schema.names
    if isinstance(rows, pa.Table | pa.RecordBatch):
        batch = _from_arrow(table, rows, names, first)
    elif hasattr(rows, "to_dict") and hasattr(rows, "iloc"):
        batch = _from_pandas(table, rows, names, first)
    else:
        batch = _from_dicts(table, rows, names, first)
    for name in table.key:
        if name in names and batch.column(name).null_count:
            row = pc.index(batch.column(name).is_null(), True).as_py()
            raise NullKey(row=first + row, column=name, table=table.name)
    return batch


def _from_arrow(table: TableDef, rows: pa.Table | pa.RecordBatch, names: list[str], first: int) -> pa.RecordBatch:
    given = {column_name(table, n): n for n in rows.schema.names}
    arrays = []
    for name in names:
        kind = table.schema.field(name).type
        if name not in given:
            arrays.append(pa.nulls(rows.num_rows, kind))
            continue
        array = rows.column(given[name])
        if isinstance(array, pa.ChunkedArray):
            array = array.combine_chunks()
        arrays.append(_cast(array, name, kind, first))
    return _to_record_batch(table, arrays, names)


def _from_pandas(table: TableDef, frame: Any, names: list[str], first: int) -> pa.RecordBatch:
    """Converts a pandas DataFrame. NaN, NA and NaT are NULL: pandas has no other sign for a missing value."""
    positions = {column_name(table, n): i for i, n in enumerate(frame.columns)}
    arrays = []
    for name in names:
        kind = table.schema.field(name).type
        if name not in positions:
            arrays.append(pa.nulls(len(frame), kind))
            continue
        series = frame.iloc[:, positions[name]]
        if series.dtype == object:
            values = [None if absent else value for value, absent in zip(series, series.isna(), strict=True)]
            arrays.append(array_of(values, name, kind, first))
        else:
            array = pa.Array.from_pandas(series)
            array = array.combine_chunks() if isinstance(array, pa.ChunkedArray) else array
            arrays.append(_cast(array, name, kind, first))
    return _to_record_batch(table, arrays, names)


def _to_record_batch(table: TableDef, arrays: list[pa.Array], names: list[str]) -> pa.RecordBatch:
    return pa.RecordBatch.from_arrays(arrays, schema=pa.schema([table.schema.field(n) for n in names]))


def column_name(table: TableDef, name: str, row: int = 1) -> str:
    """The table's spelling of a column name, which is case-insensitive; UnknownColumn if the table has none."""
    if name in table.schema.names:
        return name
    for own in table.schema.names:
        if own.lower() == str(name).lower():
            return str(own)
    raise UnknownColumn(row=row, table=table.name, column=name, columns=", ".join(table.schema.names))


def _cast(array: pa.Array, name: str, kind: pa.DataType, first: int) -> pa.Array:
    """The array as type `kind`. If Arrow cannot cast every value exactly, converts each to name the bad one."""
    cast = nested_arrays.cast(array, kind, _cast_exactly)
    return cast if cast is not None else _convert_each(array.to_pylist(), name, kind, first)


def _cast_exactly(array: pa.Array, kind: pa.DataType) -> pa.Array | None:
    """The array as a type without parts; None if a value might change or does not fit."""
    if array.type == kind:
        return array
    if pa.types.is_decimal(kind) and not _is_number(array.type) and not short_decimals(array):
        return None
    if pa.types.is_duration(kind) and not pa.types.is_duration(array.type):
        return None  # Arrow would take a number for microseconds
    try:
        cast = array.cast(kind)
        return None if _may_round(array.type, kind) and cast.cast(array.type) != array else cast
    except (pa.ArrowInvalid, pa.ArrowNotImplementedError, pa.ArrowTypeError):
        return None


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


def _from_dicts(table: TableDef, rows: Sequence[Mapping[str, Any]], names: list[str], first: int) -> pa.RecordBatch:
    expected = set(names)
    dicts: list[Any] = [rows] if isinstance(rows, Mapping) else list(rows)
    for index, row in enumerate(dicts):
        if not isinstance(row, Mapping):
            number, value, expected_type = first + index, brief(row), "a dict of columns"
            text = f"row {number} is {value}; expected {expected_type}; nothing was written"
            raise BadValue(row=number, column="(row)", value=value, type=expected_type, text=text)
        if not row.keys() <= expected:
            respelled = {column_name(table, n, first + index): v for n, v in row.items()}
            if not respelled.keys() <= expected:
                extra = next(n for n in respelled if n not in expected)
                raise UnknownColumn(row=first + index, table=table.name, column=extra, columns=", ".join(names))
            dicts[index] = respelled
    arrays = [array_of([row.get(name) for row in dicts], name, table.schema.field(name).type, first) for name in names]
    return _to_record_batch(table, arrays, names)


def array_of(values: list[Any], name: str, kind: pa.DataType, first: int = 1) -> pa.Array:
    """Python values as an Arrow array. Arrow converts them only if all have the exact Python type of the column.

    For those Arrow is as strict as `to_value`; other values are converted one by one.
    """
    python_type = _PYTHON_TYPES.get(kind.id)
    if python_type is None or not all(v is None or type(v) is python_type for v in values):
        return _convert_each(values, name, kind, first)
    try:
        return pa.array(values, kind)
    except (pa.ArrowInvalid, pa.ArrowTypeError, OverflowError, UnicodeEncodeError):
        return _convert_each(values, name, kind, first)


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


def _convert_each(values: Sequence[Any], name: str, kind: pa.DataType, first: int) -> pa.Array:
    converted = []
    for number, value in enumerate(values, first):
        try:
            converted.append(to_value(value, kind))
        except Misfit as misfit:
            raise bad_value(misfit, number, name) from None
    return pa.array(converted, kind)


def bad_value(misfit: Misfit, row: int, column: str) -> BadValue:
    """The error for a value of a row; for a part of a nested value, the column is written with the path to it."""
    return BadValue(row=row, column=column + misfit.path, value=misfit.what, type=type_text(misfit.kind))


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
            result.append(to_value(value, types.arrow(column.type)))
        except Misfit:
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
