"""Parses values from text and formats them as text, for the command line and for files.

    BINARY                       hexadecimal, `0x00ff`; the `0x` is optional
    DECIMAL, DATE, TIMESTAMP     strings in JSON, so that nothing is rounded: "9.50", "2026-01-31"
    INTERVAL                     days and time of day, `1 02:03:04.500000`; a string in JSON
    FLOAT, DOUBLE                "NaN", "Infinity" and "-Infinity" are strings in JSON, which has no such numbers
    ARRAY, STRUCT                a JSON array, a JSON object
    MAP                          a JSON array of [key, value] pairs; a JSON object is read, too, its names are the keys

Formatted values parse back to the same value.
"""

from __future__ import annotations

import datetime
import decimal
import json
import math
from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import lru_cache
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from tailrace import types
from tailrace.codec.convert import bad_key_value, bad_value, short_decimals, wrong_key_length
from tailrace.codec.nested_arrays import is_nested
from tailrace.codec.python_values import Misfit, brief, interval_text, to_value
from tailrace.errors import DataError
from tailrace.types import Column

_BOOLEANS = {"true": True, "false": False, "1": True, "0": False}


def value_of(text: str, kind: pa.DataType) -> Any:
    """Parses a value of type `kind`; ValueError if the text is not one."""
    if pa.types.is_string(kind):
        return to_value(text, kind)
    if is_nested(kind):
        return to_value(_json_reader(kind)(from_json(text)), kind)
    text = text.strip()
    if pa.types.is_boolean(kind):
        return _BOOLEANS[text.lower()] if text.lower() in _BOOLEANS else _refuse(text)
    if pa.types.is_integer(kind):
        return to_value(int(text) if "_" not in text else _refuse(text), kind)
    if pa.types.is_floating(kind):
        return float(text) if "_" not in text else _refuse(text)
    if pa.types.is_binary(kind):
        return bytes.fromhex(text.removeprefix("0x"))
    return to_value(text, kind)


def _refuse(text: str) -> Any:
    raise ValueError(text)


def array_of(texts: pa.Array, name: str, kind: pa.DataType) -> pa.Array:
    """Parses a column of texts. If Arrow refuses the column, parses value by value to name the bad one."""
    if pa.types.is_string(kind):
        return texts
    texts = pc.utf8_trim_whitespace(texts)
    try:
        return _cast(texts, kind)
    except pa.ArrowInvalid:
        return pa.array(list(_parse_each(texts.to_pylist(), name, kind)), kind)


def _cast(texts: pa.Array, kind: pa.DataType) -> pa.Array:
    if pa.types.is_binary(kind) or pa.types.is_duration(kind) or is_nested(kind):
        raise pa.ArrowInvalid("Arrow does not parse hexadecimal, intervals and JSON")
    if pa.types.is_decimal(kind) and not short_decimals(texts):
        raise pa.ArrowInvalid("Arrow would crash on a long decimal")
    if pa.types.is_timestamp(kind) and kind.tz:
        return texts.cast(pa.timestamp(kind.unit)).cast(kind)
    return texts.cast(kind)


def _parse_each(texts: Iterable[str | None], name: str, kind: pa.DataType) -> Iterable[Any]:
    for row, text in enumerate(texts, 1):
        try:
            yield None if text is None else value_of(text, kind)
        except (ValueError, ArithmeticError) as error:
            misfit = error if isinstance(error, Misfit) and error.path else Misfit(brief(text), kind)
            raise bad_value(misfit, row, name) from None


# JSON


def from_json(text: str | bytes) -> Any:
    """Parses JSON with fractions as exact decimals; ValueError if it does not parse."""
    try:
        return json.loads(text, parse_float=decimal.Decimal)
    except RecursionError:
        raise ValueError("nested too deeply") from None


def row_from_json(row: Any, columns: Sequence[Column]) -> Any:
    """Converts the values of a parsed JSON row whose types JSON lacks. The table checks everything else."""
    if not isinstance(row, Mapping):
        return row
    readers = _column_readers(tuple(columns))
    return {name: readers.get(name.lower(), _identity)(value) for name, value in row.items()}


def value_from_json(value: Any, kind: pa.DataType) -> Any:
    """Converts a parsed JSON value to type `kind`; `Misfit` if it does not fit."""
    return to_value(_json_reader(kind)(value), kind)


_Reader = Callable[[Any], Any]


@lru_cache(maxsize=64)
def _column_readers(columns: tuple[Column, ...]) -> dict[str, _Reader]:
    readers = {c.name.lower(): _json_reader(types.arrow(c.type)) for c in columns}
    return {name: reader for name, reader in readers.items() if reader is not _identity}


@lru_cache(maxsize=1024)
def _json_reader(kind: pa.DataType) -> _Reader:
    """A function from a JSON value to the value that it stands for. It returns a value that does not fit unchanged."""
    if pa.types.is_binary(kind):
        return _read_binary
    if pa.types.is_floating(kind):
        return _read_float
    if pa.types.is_struct(kind):
        return _struct_reader({field.name.lower(): _json_reader(field.type) for field in kind})
    if pa.types.is_map(kind):
        return _map_reader(kind)
    if pa.types.is_list(kind):
        return _list_reader(_json_reader(kind.value_type))
    return _identity


def _identity(value: Any) -> Any:
    return value


def _read_binary(value: Any) -> Any:
    try:
        return bytes.fromhex(value.removeprefix("0x")) if isinstance(value, str) else value
    except ValueError:
        return value


def _read_float(value: Any) -> Any:
    return float(value) if value in ("NaN", "Infinity", "-Infinity") else value


def _list_reader(read: _Reader) -> _Reader:
    return lambda value: [read(part) for part in value] if isinstance(value, list) else value


def _struct_reader(readers: dict[str, _Reader]) -> _Reader:
    def read(value: Any) -> Any:
        if not isinstance(value, Mapping):
            return value
        return {name: readers.get(name.lower(), _identity)(part) for name, part in value.items()}

    return read


def _map_reader(kind: pa.DataType) -> _Reader:
    read_key, read_item = _json_reader(kind.key_type), _json_reader(kind.item_type)

    def parse_name(name: str) -> Any:
        try:
            return value_of(name, kind.key_type)
        except (ValueError, ArithmeticError):
            return name

    def read(value: Any) -> Any:
        if isinstance(value, Mapping):
            return [(parse_name(name), read_item(part)) for name, part in value.items()]
        if isinstance(value, list) and all(isinstance(pair, list) and len(pair) == 2 for pair in value):
            return [(read_key(key), read_item(part)) for key, part in value]
        return value

    return read


def to_json(value: Any, *, indent: int | None = None) -> str:
    return json.dumps(plain(value), indent=indent, ensure_ascii=False, allow_nan=False)


def plain(value: Any) -> Any:
    """A value of any SQL type as a JSON value."""
    match value:
        case float():
            return value if math.isfinite(value) else {"nan": "NaN", "inf": "Infinity"}.get(str(value), "-Infinity")
        case None | bool() | int() | str():
            return value
        case decimal.Decimal():
            return format(value, "f")
        case bytes():
            return "0x" + value.hex()
        case datetime.date() | datetime.time():
            return value.isoformat()
        case datetime.timedelta():
            return interval_text(value)
        case Mapping():
            return {str(k): plain(v) for k, v in value.items()}
        case list() | tuple() | set() | frozenset():
            return [plain(v) for v in value]
    return str(value)


def format_cell(value: Any) -> str:
    """A value as text for a printed table."""
    if value is None:
        return "NULL"
    json_value = plain(value)
    return json_value if isinstance(json_value, str) else json.dumps(json_value, ensure_ascii=False)


# keys


def key_of(name: str, columns: Sequence[Column], texts: Sequence[str], *, prefix: bool = False) -> tuple[Any, ...]:
    """Parses a key from the command line: one text per column, or one JSON array of values."""
    names = [c.name for c in columns]
    values = _json_array(texts[0]) if len(texts) == 1 else None
    if values is not None and (len(values) == len(columns) or (prefix and len(values) <= len(columns))):
        row = row_from_json(dict(zip(names, values, strict=False)), columns)
        return tuple(row.values())
    if len(texts) > len(columns) or (len(texts) < len(columns) and not prefix):
        raise wrong_key_length(name, columns, len(texts if values is None else values), prefix)
    return tuple(_key_value(name, columns, c, t) for c, t in zip(columns, texts, strict=False))


def _key_value(name: str, columns: Sequence[Column], column: Column, text: str) -> Any:
    try:
        return value_of(text, types.arrow(column.type))
    except (ValueError, ArithmeticError):
        raise bad_key_value(name, columns, column, text) from None


def _json_array(text: str) -> list[Any] | None:
    """The values of a text that is a JSON array; None for any other text."""
    if not text.lstrip().startswith("["):
        return None
    try:
        parsed = from_json(text)
    except ValueError:
        return None
    return parsed if isinstance(parsed, list) else None


def keys_of(name: str, columns: Sequence[Column], texts: Sequence[str]) -> list[tuple[Any, ...]]:
    """Parses one key per text. For a composite key, all texts are one key, unless a text is a JSON array."""
    if len(columns) == 1 or any(_json_array(t) is not None for t in texts):
        return [key_of(name, columns, [t]) for t in texts]
    return [key_of(name, columns, texts)]


def rows_of(texts: Iterable[str], columns: Sequence[Column]) -> list[Any]:
    """Parses rows from JSON texts, each an object or an array of objects."""
    rows: list[Any] = []
    for text in texts:
        try:
            parsed = from_json(text)
        except ValueError as error:
            number = len(rows) + 1
            raise DataError(message=f"row {number} is not JSON: {error}; nothing was written", row=number) from None
        rows += parsed if isinstance(parsed, list) else [parsed]
    return [row_from_json(row, columns) for row in rows]
