"""Literals in statements: the default of a column, read from SQL and written as SQL."""

from __future__ import annotations

import math

import pyarrow as pa
from sqlglot.tokenizer_core import TokenType

from tailrace import types
from tailrace.codec.text import format_cell, value_of
from tailrace.errors import SqlError, Unsupported
from tailrace.plan.sql.tokens import Words
from tailrace.types import Column

_STRINGS = (TokenType.STRING, TokenType.RAW_STRING)
_HEX = (TokenType.HEX_STRING,)
_TIMES = {"date": "DATE", "timestamp": "TIMESTAMP", "timestamp_ntz": "TIMESTAMP_NTZ"}


def read_default(words: Words, column: Column) -> str | None:
    """Reads a literal that fits a column. Returns its text, from which `value_of` makes the value; None for NULL."""
    location, start = words.location(), words.text
    sign = "-" if words.accept("-") else ""
    if not sign and words.accept("NULL"):
        return None
    if not types.is_scalar(column.type) or column.type.startswith("interval"):
        reason = "only NULL can be the default of a column of this type"
        raise Unsupported(construct=f"DEFAULT on column {column.name!r}", reason=reason, **location)
    is_time = words.peek() == _TIMES.get(column.type) and words.peek(1).startswith("`")
    if is_time:
        words.next()
    if words.peek() in (",", ")", ""):
        raise words.fault("a literal")
    token = words.next()
    text, kind = sign + token.text, types.arrow(column.type)
    try:
        if token.token_type not in _expected(column.type) or (sign and token.token_type != TokenType.NUMBER):
            raise ValueError(text)
        value = pa.scalar(value_of(text, kind), kind).as_py()
        if isinstance(value, float) and not math.isfinite(value):
            raise ValueError(text)
    except (ValueError, ArithmeticError, pa.ArrowException):
        shown = text if token.token_type == TokenType.NUMBER else start if not is_time else token.text
        message = f"DEFAULT {shown} is not a literal of type {column.type.upper()}, the type of column {column.name!r}"
        raise SqlError(message=message, **location) from None
    return format_cell(value)


def _expected(type_name: str) -> tuple[TokenType, ...]:
    if type_name in _TIMES or type_name == "string":
        return _STRINGS
    if type_name == "boolean":
        return TokenType.TRUE, TokenType.FALSE
    return _HEX if type_name == "binary" else (TokenType.NUMBER,)


def default_sql(text: str, type_name: str) -> str:
    """The literal that `read_default` reads as this text."""
    if type_name == "boolean":
        return text.upper()
    if type_name == "binary":
        return f"X'{text.removeprefix('0x')}'"
    if type_name == "string" or type_name in _TIMES:
        escaped = text.replace("\\", "\\\\").replace("'", "\\'")
        return f"{_TIMES.get(type_name, '')} '{escaped}'".strip()
    return text
