"""The columns of CREATE TABLE: names, types, the primary key."""

from __future__ import annotations

from dataclasses import dataclass, field

from tailrace.errors import SqlError, SyntaxFault, Unsupported
from tailrace.plan.sql.tokens import Words
from tailrace.types import Column

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
_KNOWN = (
    "a column is BOOLEAN, TINYINT, SMALLINT, INT, BIGINT, FLOAT, DOUBLE, DECIMAL(p,s), STRING, BINARY, "
    "DATE, TIMESTAMP or TIMESTAMP_NTZ"
)
_CONSTRAINTS = "a column has a type, NOT NULL (if it is of the key) and PRIMARY KEY only"
_TABLE_LEVEL = ("PRIMARY", "CONSTRAINT", "FOREIGN", "UNIQUE", "CHECK")

Place = dict[str, int]


@dataclass
class _Draft:
    table: str
    columns: list[Column] = field(default_factory=list)
    key: list[tuple[str, Place]] = field(default_factory=list)
    not_null: list[tuple[str, Place]] = field(default_factory=list)

    def add(self, name: str, kind: str, at: Place) -> None:
        if any(c.name.lower() == name.lower() for c in self.columns):
            raise SqlError(message=f"table {self.table!r} has two columns named {name!r}", **at)
        if name.lower() == "_weight":
            raise SqlError(message="a column cannot be named '_weight': Tailrace needs the name", **at)
        self.columns.append(Column(name, kind))

    def set_key(self, names: list[tuple[str, Place]], at: Place) -> None:
        if self.key:
            raise SqlError(message=f"table {self.table!r} has two primary keys", **at)
        self.key = names

    def finish(self, at: Place) -> tuple[tuple[Column, ...], tuple[str, ...]]:
        if not self.key:
            advice = "write PRIMARY KEY after a column, or PRIMARY KEY (a, b) after the last one"
            raise SqlError(message=f"table {self.table!r} has no primary key; {advice}", **at)
        key = [self._of_key(name, where) for name, where in self.key]
        if len(set(key)) < len(key):
            raise SqlError(message=f"the primary key of {self.table!r} names a column twice", **at)
        for name, where in self.not_null:
            if name not in key:
                reason = "only primary key columns are checked for NULL"
                raise Unsupported(construct=f"NOT NULL on column {name!r}", reason=reason, **where)
        return tuple(self.columns), tuple(key)

    def _of_key(self, name: str, at: Place) -> str:
        for column in self.columns:
            if column.name.lower() == name.lower():
                return column.name
        raise SqlError(message=f"primary key column {name!r} is no column of {self.table!r}", **at)


def read_columns(words: Words, table: str) -> tuple[tuple[Column, ...], tuple[str, ...]]:
    """The parenthesised part of CREATE TABLE: the columns, and the names of the key's."""
    at = words.location()
    draft = _Draft(table)
    words.expect("(")
    while True:
        _read_constraint(words, draft) if words.peek() in _TABLE_LEVEL else _read_column(words, draft)
        if not words.accept(","):
            break
    words.expect(")")
    return draft.finish(at)


def _read_constraint(words: Words, draft: _Draft) -> None:
    at = words.location()
    if words.accept("CONSTRAINT"):
        words.name("constraint")
    if not words.accept("PRIMARY", "KEY"):
        reason = "a table has columns and a primary key only"
        raise Unsupported(construct=f"constraint {words.peek()}", reason=reason, **words.location())
    words.expect("(")
    names = [(words.location(), words.name("column"))]
    while words.accept(","):
        names.append((words.location(), words.name("column")))
    words.expect(")")
    draft.set_key([(name, where) for where, name in names], at)


def _read_column(words: Words, draft: _Draft) -> None:
    at, name = words.location(), words.name("column")
    draft.add(name, _read_type(words), at)
    while words.peek() not in (",", ")", ""):
        where = words.location()
        if words.accept("PRIMARY", "KEY"):
            draft.set_key([(name, where)], where)
        elif words.accept("NOT", "NULL"):
            draft.not_null.append((name, where))
        elif not words.accept("NULL"):
            raise Unsupported(construct=f"{words.peek()} on column {name!r}", reason=_CONSTRAINTS, **where)


def _read_type(words: Words) -> str:
    at, word = words.location(), words.peek()
    if word in (",", ")", ""):
        raise words.fault("a type")
    words.next()
    if words.peek() == "<":
        text = word + _bracketed(words)
        raise Unsupported(construct=f"type {text}", reason=_KNOWN, **at)
    if word in _DECIMALS:
        return _decimal(_sizes(words), at)
    if word not in _TYPES:
        raise Unsupported(construct=f"type {word.lstrip('`')}", reason=_KNOWN, **at)
    if word in _SIZED:
        _sizes(words)
    return _TYPES[word]


def _decimal(sizes: list[int], at: Place) -> str:
    precision, scale = [*sizes, 10, 0][:2] if len(sizes) != 1 else (sizes[0], 0)
    if len(sizes) > 2 or not 1 <= precision <= 38 or not 0 <= scale <= precision:
        raise SqlError(message="DECIMAL(p, s) needs 1 <= p <= 38 and 0 <= s <= p", **at)
    return f"decimal({precision},{scale})"


def _sizes(words: Words) -> list[int]:
    if not words.accept("("):
        return []
    sizes = [_size(words)]
    while words.accept(","):
        sizes.append(_size(words))
    words.expect(")")
    return sizes


def _size(words: Words) -> int:
    if not words.text.isdigit():
        raise words.fault("a number")
    return int(words.next().text)


def _bracketed(words: Words) -> str:
    """The text of `<...>`, for the error that names the type."""
    text, depth = "", 0
    while True:
        if not words.peek():
            raise SyntaxFault(message="a type's < has no >", **words.location())
        word = words.next().text
        depth += word.count("<") - word.count(">")
        text += word.upper()
        if depth <= 0:
            return text
