"""Parses the type of a column in CREATE TABLE, and returns the text that Spark prints for it."""

from __future__ import annotations

from tailrace import types
from tailrace.errors import SqlError, Unsupported
from tailrace.plan.sql.tokens import Location, Words

MAX_DEPTH = 32  # of types inside types; far below Python's recursion limit
_TYPES = {
    "BOOLEAN": "boolean",
    "TINYINT": "tinyint",
    "BYTE": "tinyint",
    "SMALLINT": "smallint",
    "SHORT": "smallint",
    "INT": "int",
    "INTEGER": "int",
    "BIGINT": "bigint",
    "LONG": "bigint",
    "FLOAT": "float",
    "REAL": "float",
    "DOUBLE": "double",
    "STRING": "string",
    "TEXT": "string",
    "VARCHAR": "string",
    "CHAR": "string",
    "CHARACTER": "string",
    "BINARY": "binary",
    "DATE": "date",
    "TIMESTAMP": "timestamp",
    "TIMESTAMP_LTZ": "timestamp",
    "TIMESTAMP_NTZ": "timestamp_ntz",
}
_DECIMALS = ("DECIMAL", "DEC", "NUMERIC")
_SIZED = ("VARCHAR", "CHAR", "CHARACTER")
_NESTED = {"ARRAY": "ARRAY<INT>", "MAP": "MAP<STRING, INT>", "STRUCT": "STRUCT<a: INT, b: STRING>"}
_SUPPORTED = (
    "use BOOLEAN, TINYINT, SMALLINT, INT, BIGINT, FLOAT, DOUBLE, DECIMAL(p,s), STRING, BINARY, "
    "DATE, TIMESTAMP, TIMESTAMP_NTZ, INTERVAL DAY TO SECOND, ARRAY<...>, MAP<...> or STRUCT<...>"
)


def read_type(words: Words, depth: int = 0) -> str:
    """Reads a type; `depth` is the number of types around it."""
    location, word = words.location(), words.peek()
    if word in (",", ")", ""):
        raise words.fault("a type")
    if depth > MAX_DEPTH:
        reason = f"types may be nested at most {MAX_DEPTH} deep"
        raise Unsupported(construct=f"type {word}", reason=reason, **location)
    words.next()
    if word in _NESTED:
        return _read_nested(words, word, depth, location)
    if word == "INTERVAL":
        return _read_interval(words, location)
    if word in _DECIMALS:
        return _decimal(_read_sizes(words), location)
    if word not in _TYPES:
        name = word.lstrip("`")
        advice = types.instead_of(name)
        reason = _SUPPORTED if advice == types.NOT_STORED else advice
        raise Unsupported(construct=f"type {name}", reason=reason, **location)
    if word in _SIZED:
        _read_sizes(words)
    return _TYPES[word]


def _read_nested(words: Words, word: str, depth: int, location: Location) -> str:
    if not words.accept("<"):
        reason = f"write what it contains, such as {_NESTED[word]}"
        raise Unsupported(construct=f"type {word}", reason=reason, **location)
    if word == "STRUCT":
        text = f"struct<{','.join(_read_fields(words, depth))}>"
    elif word == "ARRAY":
        text = f"array<{read_type(words, depth + 1)}>"
    else:
        text = f"map<{_read_map_key(words, depth)},"
        words.expect(",")
        text += f"{read_type(words, depth + 1)}>"
    words.expect(">")
    return text


def _read_map_key(words: Words, depth: int) -> str:
    location, key = words.location(), read_type(words, depth + 1)
    if types.holds_map(key):
        reason = "Spark cannot compare maps; use another type for the keys"
        raise Unsupported(construct="a map whose keys contain maps", reason=reason, **location)
    return key


def _read_fields(words: Words, depth: int) -> list[str]:
    fields: dict[str, str] = {}
    while True:
        location, name = words.location(), words.read_name("field")
        if name.lower() in fields:
            raise SqlError(message=f"a struct has two fields named {name!r}", **location)
        words.accept(":")
        fields[name.lower()] = f"{types.field_name(name)}:{read_type(words, depth + 1)}"
        if words.peek() not in (",", ">"):
            reason = "a field has only a name and a type, and may always be NULL"
            raise Unsupported(construct=f"{words.peek()} on field {name!r}", reason=reason, **words.location())
        if not words.accept(","):
            return list(fields.values())


def _read_interval(words: Words, location: Location) -> str:
    text = "interval"
    while words.peek() in ("YEAR", "MONTH", "DAY", "HOUR", "MINUTE", "SECOND", "TO"):
        text += f" {words.next().text.lower()}"
    if text == "interval day to second":
        return text
    reason = types.instead_of(text)
    if text in types.DAY_TIME_INTERVALS:
        reason = "a table stores all of these as INTERVAL DAY TO SECOND"
    raise Unsupported(construct=f"type {text.upper()}", reason=reason, **location)


def _decimal(sizes: list[int], location: Location) -> str:
    precision, scale = [*sizes, 10, 0][:2] if len(sizes) != 1 else (sizes[0], 0)
    if len(sizes) > 2 or not 1 <= precision <= 38 or not 0 <= scale <= precision:
        raise SqlError(message="DECIMAL(p, s) needs 1 <= p <= 38 and 0 <= s <= p", **location)
    return f"decimal({precision},{scale})"


def _read_sizes(words: Words) -> list[int]:
    """Reads `(10)` or `(10, 2)` after a type name; empty if there are no parentheses."""
    if not words.accept("("):
        return []
    sizes = [_read_size(words)]
    while words.accept(","):
        sizes.append(_read_size(words))
    words.expect(")")
    return sizes


def _read_size(words: Words) -> int:
    if not words.text.isdigit():
        raise words.fault("a number")
    return int(words.next().text)
