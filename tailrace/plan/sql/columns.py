"""Parses the column list of CREATE TABLE: names, types and the primary key."""

from __future__ import annotations

from dataclasses import dataclass, field

from tailrace.errors import SqlError, Unsupported
from tailrace.plan.sql.column_types import read_type
from tailrace.plan.sql.tokens import Location, Words
from tailrace.types import Column, is_scalar

_SUPPORTED_CONSTRAINTS = "a column can have PRIMARY KEY and, if it is a key column, NOT NULL"
_NESTED_KEY = "use key columns of simple types: the fields of the struct, or a STRING such as its JSON text"
_TABLE_CONSTRAINT_STARTS = ("PRIMARY", "CONSTRAINT", "FOREIGN", "UNIQUE", "CHECK")


@dataclass
class _TableDraft:
    """A CREATE TABLE statement while it is parsed. Key columns may be named before they are defined."""

    table: str
    columns: list[Column] = field(default_factory=list)
    key: list[tuple[str, Location]] = field(default_factory=list)
    not_null: list[tuple[str, Location]] = field(default_factory=list)

    def add_column(self, name: str, type_name: str, location: Location) -> None:
        if any(c.name.lower() == name.lower() for c in self.columns):
            raise SqlError(message=f"table {self.table!r} has two columns named {name!r}", **location)
        if name.lower() == "_weight":
            raise SqlError(message="the column name '_weight' is reserved; choose another", **location)
        self.columns.append(Column(name, type_name))

    def set_key(self, names: list[tuple[str, Location]], location: Location) -> None:
        if self.key:
            raise SqlError(message=f"table {self.table!r} has two primary keys", **location)
        self.key = names

    def finish(self, location: Location) -> tuple[tuple[Column, ...], tuple[str, ...]]:
        if not self.key:
            advice = "write PRIMARY KEY after a column, or PRIMARY KEY (a, b) after the last one"
            raise SqlError(message=f"table {self.table!r} has no primary key; {advice}", **location)
        key = [self._key_column(name, key_location) for name, key_location in self.key]
        if len(set(key)) < len(key):
            raise SqlError(message=f"the primary key of {self.table!r} names a column twice", **location)
        for name, not_null_location in self.not_null:
            if name not in key:
                reason = "NULL is rejected only in primary key columns; remove NOT NULL"
                raise Unsupported(construct=f"NOT NULL on column {name!r}", reason=reason, **not_null_location)
        return tuple(self.columns), tuple(key)

    def _key_column(self, name: str, location: Location) -> str:
        """The column name as spelled in its definition. Arrays, maps and structs are refused: keys must sort."""
        for column in self.columns:
            if column.name.lower() == name.lower():
                if not is_scalar(column.type):
                    raise Unsupported(construct=f"{column.type.upper()} as a key", reason=_NESTED_KEY, **location)
                return column.name
        raise SqlError(message=f"primary key column {name!r} is not a column of {self.table!r}", **location)


def read_columns(words: Words, table: str) -> tuple[tuple[Column, ...], tuple[str, ...]]:
    """Reads the parenthesised part of CREATE TABLE; returns the columns and the names of the key columns."""
    location = words.location()
    draft = _TableDraft(table)
    words.expect("(")
    while True:
        if words.peek() in _TABLE_CONSTRAINT_STARTS:
            _read_constraint(words, draft)
        else:
            _read_column(words, draft)
        if not words.accept(","):
            break
    words.expect(")")
    return draft.finish(location)


def _read_constraint(words: Words, draft: _TableDraft) -> None:
    location = words.location()
    if words.accept("CONSTRAINT"):
        words.read_name("constraint")
    if not words.accept("PRIMARY", "KEY"):
        reason = "a table has only columns and a primary key"
        raise Unsupported(construct=f"constraint {words.peek()}", reason=reason, **words.location())
    words.expect("(")
    key = [_read_key_column(words)]
    while words.accept(","):
        key.append(_read_key_column(words))
    words.expect(")")
    draft.set_key(key, location)


def _read_key_column(words: Words) -> tuple[str, Location]:
    location = words.location()
    return words.read_name("column"), location


def _read_column(words: Words, draft: _TableDraft) -> None:
    location, name = words.location(), words.read_name("column")
    draft.add_column(name, read_type(words), location)
    while words.peek() not in (",", ")", ""):
        location = words.location()
        if words.accept("PRIMARY", "KEY"):
            draft.set_key([(name, location)], location)
        elif words.accept("NOT", "NULL"):
            draft.not_null.append((name, location))
        elif not words.accept("NULL"):
            construct = f"{words.peek()} on column {name!r}"
            raise Unsupported(construct=construct, reason=_SUPPORTED_CONSTRAINTS, **location)
