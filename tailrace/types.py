"""Converts SQL types between Spark's DDL text (`decimal(12,2)`, `array<string>`) and Arrow types.

Plans, the catalog and errors all write a type as the lower-case text that Spark prints for it, except that a field name
with other characters than letters, digits and underscores has backticks. Spark can therefore parse every such text.
`arrow(text)` returns its Arrow type; `name(arrow_type)` is the inverse.
"""

from __future__ import annotations

import re
from functools import lru_cache
from typing import NamedTuple

import pyarrow as pa

from tailrace.errors import Unsupported

NOT_STORED = "a table or view cannot store it; cast it to another type, such as STRING or BIGINT"
_ALTERNATIVES = {
    "variant": "store the JSON text as STRING; a view reads it with from_json, get_json_object or parse_json",
    "time": "store it as a STRING such as '12:30:00', or as a number of seconds",
    "interval year": "store the number of months as INT; a view adds it with add_months",
    "interval month": "store the number of months as INT; a view adds it with add_months",
    "interval": "use INTERVAL DAY TO SECOND, or store the number of months as INT",
    "void": "every value is NULL; cast it to the type that you want, such as CAST(NULL AS INT)",
    "null": "every value is NULL; cast it to the type that you want, such as CAST(NULL AS INT)",
}
"""What to do instead of storing a type, by the first words of its text."""

SCALARS: dict[str, pa.DataType] = {
    "boolean": pa.bool_(),
    "tinyint": pa.int8(),
    "smallint": pa.int16(),
    "int": pa.int32(),
    "bigint": pa.int64(),
    "float": pa.float32(),
    "double": pa.float64(),
    "string": pa.string(),
    "binary": pa.binary(),
    "date": pa.date32(),
    "timestamp": pa.timestamp("us", "UTC"),
    "timestamp_ntz": pa.timestamp("us"),
    "interval day to second": pa.duration("us"),
}
_DAY_TIME = ("day", "hour", "minute", "second")
DAY_TIME_INTERVALS = frozenset(
    f"interval {first}" + (f" to {last}" if last != first else "")
    for i, first in enumerate(_DAY_TIME)
    for last in _DAY_TIME[i:]
)
"""The types of Spark's day-time intervals. All are stored as microseconds."""
INTEGERS = ("tinyint", "smallint", "int", "bigint")  # from narrow to wide
ALIASES = {"integer": "int", "long": "bigint", "short": "smallint", "byte": "tinyint", "real": "float"}
_NAMES = {arrow_type: text for text, arrow_type in SCALARS.items()}
_PLAIN_NAME = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")
_DECIMAL = re.compile(r"decimal\((\d+),\s*(\d+)\)")


class Column(NamedTuple):
    """One column of a table, view or plan node: its name and the text of its type."""

    name: str
    type: str


@lru_cache(maxsize=4096)
def arrow(text: str) -> pa.DataType:
    """The Arrow type of a SQL type; `Unsupported` if the store cannot hold it."""
    text = text.strip().lower() if "struct" not in text else text.strip()
    text = ALIASES.get(text, text)
    if text in SCALARS:
        return SCALARS[text]
    if text in DAY_TIME_INTERVALS:
        return SCALARS["interval day to second"]
    if text == "decimal":
        return pa.decimal128(10, 0)
    if digits := decimal_parts(text):
        precision, scale = digits
        if 1 <= precision <= 38 and scale <= precision:
            return pa.decimal128(precision, scale)
    elif re.match(r"(?:varchar|char)\(\d+\)$", text):
        return pa.string()
    elif text.startswith("array<") and text.endswith(">"):
        return pa.list_(arrow(text[6:-1]))
    elif text.startswith("map<") and text.endswith(">"):
        key, value = fields_of(text)
        return pa.map_(arrow(key), arrow(value))
    elif text.startswith("struct<") and text.endswith(">"):
        fields = struct_fields(text)
        if len({field.name for field in fields}) < len(fields):
            raise Unsupported(construct=f"type {text}", reason="two of its fields have the same name; rename one")
        return pa.struct([pa.field(field.name, arrow(field.type)) for field in fields])
    raise Unsupported(construct=f"type {text.upper()}", reason=instead_of(text))


def instead_of(text: str) -> str:
    """Why a type is not stored, and what to use instead."""
    words = text.lower().partition("(")[0]
    return next((advice for first, advice in _ALTERNATIVES.items() if f"{words} ".startswith(f"{first} ")), NOT_STORED)


def fields_of(text: str) -> list[str]:
    """The parts inside the angle brackets: `["string", "int"]` for `map<string,int>`."""
    inside = text[text.index("<") + 1 : -1]
    return _split(inside, ",") if inside else []


def struct_fields(text: str) -> list[Column]:
    """The fields of a struct type."""
    fields = [_split(part, ":") for part in fields_of(text)]
    return [Column(_unquoted(parts[0]), ":".join(parts[1:])) for parts in fields]


def _split(text: str, separator: str) -> list[str]:
    """Splits at a separator outside brackets and backticks."""
    parts, depth, start, in_name = [], 0, 0, False
    for i, char in enumerate(text):
        in_name ^= char == "`"
        if in_name:
            continue
        depth += (char in "<(") - (char in ">)")
        if char == separator and depth == 0:
            parts.append(text[start:i].strip())
            start = i + 1
    return [*parts, text[start:].strip()]


def field_name(name: str) -> str:
    """The name of a struct field in the text of a type: quoted, unless Spark parses it without quotes."""
    return name if _PLAIN_NAME.fullmatch(name) else quoted(name)


def _unquoted(name: str) -> str:
    return name[1:-1].replace("``", "`") if name.startswith("`") and name.endswith("`") and len(name) > 1 else name


def name(arrow_type: pa.DataType) -> str:
    """The SQL text of an Arrow type, as Spark prints it."""
    if arrow_type in _NAMES:
        return _NAMES[arrow_type]
    if pa.types.is_decimal(arrow_type):
        return f"decimal({arrow_type.precision},{arrow_type.scale})"
    if pa.types.is_map(arrow_type):
        return f"map<{name(arrow_type.key_type)},{name(arrow_type.item_type)}>"
    if pa.types.is_list(arrow_type) or pa.types.is_large_list(arrow_type):
        return f"array<{name(arrow_type.value_type)}>"
    if pa.types.is_struct(arrow_type):
        return "struct<" + ",".join(f"{field_name(f.name)}:{name(f.type)}" for f in arrow_type) + ">"
    if pa.types.is_timestamp(arrow_type):
        return "timestamp" if arrow_type.tz else "timestamp_ntz"
    if pa.types.is_large_string(arrow_type):
        return "string"
    raise Unsupported(construct=f"type {arrow_type}", reason=NOT_STORED)


def schema(columns: tuple[Column, ...] | list[Column]) -> pa.Schema:
    return pa.schema([pa.field(c.name, arrow(c.type)) for c in columns])


def quoted(name: str) -> str:
    """A name quoted for Spark SQL."""
    return "`" + name.replace("`", "``") + "`"


def is_scalar(text: str) -> bool:
    return not text.startswith(("array<", "map<", "struct<"))


def holds_map(text: str) -> bool:
    """Whether the type is a map or contains one. Spark compares, sorts and joins by any other type."""
    if text.startswith("struct<"):
        return any(holds_map(field.type) for field in struct_fields(text))
    return text.startswith("map<") or (text.startswith("array<") and holds_map(text[6:-1]))


def decimal_parts(text: str) -> tuple[int, int] | None:
    """Precision and scale: `(12, 2)` for `decimal(12,2)`, None for any other type."""
    parsed = _DECIMAL.fullmatch(text)
    return (int(parsed[1]), int(parsed[2])) if parsed else None


def is_float(text: str) -> bool:
    return text in ("float", "double")
