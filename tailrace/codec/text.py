"""Values as text, for the command line and for files: what a person types, and what is shown to them.

    BINARY                       hexadecimal, `0x00ff`; the `0x` may be left out
    DECIMAL, DATE, TIMESTAMP     strings in JSON, so that nothing is rounded: "9.50", "2026-01-31"
    FLOAT, DOUBLE                "NaN", "Infinity" and "-Infinity" are strings in JSON, which lacks them

What is shown can be read back.
"""

from __future__ import annotations

import datetime
import decimal
import json
import math
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from tailrace import types
from tailrace.codec.convert import brief, short_decimals, to_value
from tailrace.errors import BadKey, BadValue, DataError
from tailrace.types import Column

_BOOLEANS = {"true": True, "false": False, "1": True, "0": False}


def value_of(text: str, kind: pa.DataType) -> Any:
    """The value that a text stands for; ValueError if it is none of that type."""
    if pa.types.is_string(kind):
        return to_value(text, kind)
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
    """A column of texts as values: all at once if Arrow can, else one by one, to say which is wrong."""
    if pa.types.is_string(kind):
        return texts
    texts = pc.utf8_trim_whitespace(texts)
    try:
        return _cast(texts, kind)
    except pa.ArrowInvalid:
        return pa.array(list(_one_by_one(texts.to_pylist(), name, kind)), kind)


def _cast(texts: pa.Array, kind: pa.DataType) -> pa.Array:
    if pa.types.is_binary(kind):
        raise pa.ArrowInvalid("Arrow would take the letters themselves")
    if pa.types.is_decimal(kind) and not short_decimals(texts):
        raise pa.ArrowInvalid("Arrow would crash")
    if pa.types.is_timestamp(kind) and kind.tz:
        return texts.cast(pa.timestamp(kind.unit)).cast(kind)
    return texts.cast(kind)


def _one_by_one(texts: Iterable[str | None], name: str, kind: pa.DataType) -> Iterable[Any]:
    for row, text in enumerate(texts):
        try:
            yield None if text is None else value_of(text, kind)
        except (ValueError, ArithmeticError):
            raise BadValue(row=row, column=name, value=brief(text), type=types.name(kind).upper()) from None


# JSON


def from_json(text: str | bytes) -> Any:
    """Parsed JSON whose fractions stay exact; ValueError if it does not parse."""
    try:
        return json.loads(text, parse_float=decimal.Decimal)
    except RecursionError:
        raise ValueError("it is nested too deeply") from None


def row_from_json(row: Any, columns: Sequence[Column]) -> Any:
    """A row as it came from JSON, ready for a table, which checks all the rest."""
    if not isinstance(row, Mapping):
        return row
    special = _special(tuple(columns))
    return {name: special.get(name.lower(), _same)(value) for name, value in row.items()}


def _special(columns: tuple[Column, ...]) -> dict[str, Callable[[Any], Any]]:
    readers: dict[str, Callable[[Any], Any]] = {"binary": _binary, "float": _float, "double": _float}
    return {c.name.lower(): readers[c.type] for c in columns if c.type in readers}


def _same(value: Any) -> Any:
    return value


def _binary(value: Any) -> Any:
    try:
        return bytes.fromhex(value.removeprefix("0x")) if isinstance(value, str) else value
    except ValueError:
        return value


def _float(value: Any) -> Any:
    return float(value) if value in ("NaN", "Infinity", "-Infinity") else value


def to_json(value: Any, *, indent: int | None = None) -> str:
    return json.dumps(plain(value), indent=indent, ensure_ascii=False, allow_nan=False)


def plain(value: Any) -> Any:
    """A value of any SQL type as JSON has it."""
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
        case Mapping():
            return {str(k): plain(v) for k, v in value.items()}
        case list() | tuple() | set() | frozenset():
            return [plain(v) for v in value]
    return str(value)


def format_cell(value: Any) -> str:
    """A value as a cell of a table for people."""
    if value is None:
        return "NULL"
    found = plain(value)
    return found if isinstance(found, str) else json.dumps(found, ensure_ascii=False)


# keys


def key_of(name: str, columns: Sequence[Column], texts: Sequence[str], *, prefix: bool = False) -> tuple[Any, ...]:
    """A key from the command line: a text for each column, or one JSON array of them."""
    names = [c.name for c in columns]
    listed = _listed(texts[0]) if len(texts) == 1 else None
    if listed is not None and (len(listed) == len(columns) or (prefix and len(listed) <= len(columns))):
        row = row_from_json(dict(zip(names, listed, strict=False)), columns)
        return tuple(row.values())
    if len(texts) > len(columns) or (len(texts) < len(columns) and not prefix):
        raise BadKey(name=name, columns=names, reason=f"got {len(listed or texts)} values")
    return tuple(_key_value(name, names, c, t) for c, t in zip(columns, texts, strict=False))


def _key_value(name: str, names: list[str], column: Column, text: str) -> Any:
    try:
        return value_of(text, types.arrow(column.type))
    except (ValueError, ArithmeticError):
        reason = f"{brief(text)} does not fit {column.name} {column.type.upper()}"
        raise BadKey(name=name, columns=names, reason=reason) from None


def _listed(text: str) -> list[Any] | None:
    if not text.lstrip().startswith("["):
        return None
    try:
        found = from_json(text)
    except ValueError:
        return None
    return found if isinstance(found, list) else None


def keys_of(name: str, columns: Sequence[Column], texts: Sequence[str]) -> list[tuple[Any, ...]]:
    """Several keys: each text one, or, of a composite key, all texts together one."""
    if len(columns) == 1 or any(_listed(t) is not None for t in texts):
        return [key_of(name, columns, [t]) for t in texts]
    return [key_of(name, columns, texts)]


def rows_of(texts: Iterable[str], columns: Sequence[Column]) -> list[Any]:
    """Rows from JSON texts, each an object or an array of objects."""
    rows: list[Any] = []
    for number, text in enumerate(texts, 1):
        try:
            found = from_json(text)
        except ValueError as error:
            raise DataError(message=f"row {number} is not JSON: {error}; nothing was written", row=number) from None
        rows += found if isinstance(found, list) else [found]
    return [row_from_json(row, columns) for row in rows]
