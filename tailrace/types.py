"""Converts SQL types between Spark's DDL text (`decimal(12,2)`, `array<string>`) and Arrow types.

Plans, the catalog and errors all write a type as the lower-case text that Spark prints for it. `arrow(text)` returns
its Arrow type; `name(arrow_type)` is the inverse.
"""

from __future__ import annotations

import re
from functools import lru_cache
from typing import NamedTuple

import pyarrow as pa

from tailrace.errors import Unsupported

NOT_STORED = "a table or view cannot store it; cast it to another type, such as STRING or BIGINT"

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
}
INTEGERS = ("tinyint", "smallint", "int", "bigint")  # from narrow to wide
ALIASES = {"integer": "int", "long": "bigint", "short": "smallint", "byte": "tinyint", "real": "float"}
_NAMES = {arrow_type: text for text, arrow_type in SCALARS.items()}
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
        key, value = _split(text[4:-1])
        return pa.map_(arrow(key), arrow(value))
    elif text.startswith("struct<") and text.endswith(">"):
        fields = [part.split(":", 1) for part in _split(text[7:-1])]
        if len({field.strip() for field, _ in fields}) < len(fields):
            raise Unsupported(construct=f"type {text}", reason="two of its fields have the same name; rename one")
        return pa.struct([pa.field(field.strip(), arrow(kind)) for field, kind in fields])
    raise Unsupported(construct=f"type {text.upper()}", reason=NOT_STORED)


def fields_of(text: str) -> list[str]:
    """The parts inside the angle brackets: `["string", "int"]` for `map<string,int>`."""
    return _split(text[text.index("<") + 1 : -1])


def _split(text: str) -> list[str]:
    """Splits a comma-separated list, ignoring commas inside brackets."""
    parts, depth, start = [], 0, 0
    for i, char in enumerate(text):
        depth += (char in "<(") - (char in ">)")
        if char == "," and depth == 0:
            parts.append(text[start:i].strip())
            start = i + 1
    return [*parts, text[start:].strip()]


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
        return "struct<" + ",".join(f"{f.name}:{name(f.type)}" for f in arrow_type) + ">"
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


def decimal_parts(text: str) -> tuple[int, int] | None:
    """Precision and scale: `(12, 2)` for `decimal(12,2)`, None for any other type."""
    parsed = _DECIMAL.fullmatch(text)
    return (int(parsed[1]), int(parsed[2])) if parsed else None


def is_float(text: str) -> bool:
    return text in ("float", "double")
