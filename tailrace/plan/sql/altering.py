"""Parses ALTER TABLE, ALTER VIEW and SHOW CREATE."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from tailrace.errors import SqlError, Unsupported
from tailrace.plan.sql.columns import NewColumns, read_added
from tailrace.plan.sql.tokens import Words

_TABLE_CHANGES = "write ADD COLUMN, DROP COLUMN, RENAME COLUMN a TO b, or RENAME TO"


@dataclass(frozen=True)
class AddColumns:
    table: str
    added: NewColumns
    if_not_exists: bool


@dataclass(frozen=True)
class DropColumn:
    table: str
    column: str
    if_exists: bool
    cascade: bool


@dataclass(frozen=True)
class RenameColumn:
    table: str
    column: str
    to: str


@dataclass(frozen=True)
class Rename:
    kind: Literal["table", "view"]
    name: str
    to: str


@dataclass(frozen=True)
class ShowCreate:
    kind: Literal["table", "view"]
    name: str


Alter = AddColumns | DropColumn | RenameColumn | Rename


def read_alter(words: Words) -> Alter:
    location = words.location()
    if words.accept("MATERIALIZED", "VIEW") or words.accept("VIEW"):
        name = words.read_relation()
        if not words.accept("RENAME", "TO"):
            reason = "only RENAME TO changes a view; for another query write CREATE OR REPLACE MATERIALIZED VIEW"
            raise Unsupported(construct=f"ALTER VIEW ... {words.peek()}".strip(), reason=reason, **words.location())
        return _read_rename(words, "view", name)
    if not words.accept("TABLE"):
        reason = "write ALTER TABLE or ALTER VIEW"
        raise Unsupported(construct=f"ALTER {words.peek()}".strip(), reason=reason, **location)
    return _read_alter_table(words, words.read_relation())


def _read_alter_table(words: Words, table: str) -> Alter:
    location = words.location()
    if words.accept("ADD", "COLUMN") or words.accept("ADD", "COLUMNS"):
        if_not_exists = words.accept("IF", "NOT", "EXISTS")
        added = read_added(words, table)
        words.expect_end()
        return AddColumns(table, added, if_not_exists)
    if words.accept("DROP", "COLUMN"):
        if_exists = words.accept("IF", "EXISTS")
        column = words.read_name("column")
        cascade = words.accept("CASCADE")
        words.expect_end()
        return DropColumn(table, column, if_exists, cascade)
    if words.accept("RENAME", "COLUMN"):
        column = words.read_name("column")
        words.expect("TO")
        to_location, to = words.location(), words.read_name("column")
        if to.lower() == "_weight":
            raise SqlError(message="the column name '_weight' is reserved; choose another", **to_location)
        words.expect_end()
        return RenameColumn(table, column, to)
    if words.accept("RENAME", "TO"):
        return _read_rename(words, "table", table)
    construct = f"ALTER TABLE ... {words.peek()} {words.peek(1)}".strip()
    raise Unsupported(construct=construct, reason=_TABLE_CHANGES, **location)


def _read_rename(words: Words, kind: Literal["table", "view"], name: str) -> Rename:
    to = words.read_relation()
    words.expect_end()
    return Rename(kind, name, to)


def read_show_create(words: Words) -> ShowCreate:
    """Reads what follows SHOW."""
    words.expect("CREATE")
    kind: Literal["table", "view"] = "table"
    if words.accept("MATERIALIZED", "VIEW") or words.accept("VIEW"):
        kind = "view"
    else:
        words.expect("TABLE")
    name = words.read_relation()
    words.expect_end()
    return ShowCreate(kind, name)
