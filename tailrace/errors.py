"""Every error Tailrace raises.

    TailraceError
    ├── SqlError                  the text of a statement is at fault
    │   ├── SyntaxFault           it does not parse
    │   ├── UnknownName           no such table, view or column
    │   ├── NameTaken             a table or view of that name exists
    │   ├── BeingBuilt            a view of that name is being built
    │   ├── Unsupported           valid SQL that Tailrace cannot maintain (yet)
    │   └── InUse                 other views depend on it
    ├── DataError                 a value, row or file is at fault
    │   ├── BadValue              a value does not fit its column's type
    │   ├── NullKey               a primary key column is NULL
    │   ├── UnknownColumn         a row has a column its table lacks
    │   ├── NoSuchRow             an update of a row that is not there
    │   ├── BadKey                a key of the wrong shape for the table or view
    │   ├── BadPosition           a position to wait for that no write here has returned
    │   ├── BadFile               a file to load is broken (with the line)
    │   ├── BadRecording          a file to check is no recording, or a damaged one
    │   └── BadHistory            a history to check is not one
    ├── StoreError                the store on disk
    │   ├── NotAStore             the directory holds something else
    │   ├── NewerFormat           the directory was written by a newer Tailrace
    │   ├── OlderFormat           it was written by an older one, whose views are kept differently
    │   ├── StoreFull             map or disk is full
    │   ├── ReadOnly              directory or disk may not be written
    │   ├── Corrupt               a checksum or a structure is wrong
    │   ├── Conflict              a document is not what the writer had read
    │   ├── OffsetGap             the log has a hole
    │   ├── SnapshotGone          the epoch asked for is no longer held
    │   ├── Ended                 a snapshot or a transaction was used after its end
    │   └── Closed                the handle was closed
    └── EpochError                maintenance
        ├── Timeout               the views do not cover what was waited for
        ├── BuildFailed           a view could not be built, or be replaced; nothing of it is kept
        ├── EpochsLocked          another process runs epochs
        ├── Fenced                another process took over the epochs of this one
        └── EpochFailed           the Spark job of an epoch failed; nothing was committed

    NoJava (an EnvironmentFault, itself a TailraceError): Spark cannot start.

An error's data are its keyword arguments, readable as attributes and as `error.data`; tests assert
on them, people read the sentence.
"""

from __future__ import annotations

from typing import Any

__all__ = [
    "BadFile",
    "BadHistory",
    "BadKey",
    "BadPosition",
    "BadRecording",
    "BadValue",
    "BeingBuilt",
    "BuildFailed",
    "Closed",
    "Conflict",
    "Corrupt",
    "DataError",
    "Ended",
    "EnvironmentFault",
    "EpochError",
    "EpochFailed",
    "EpochsLocked",
    "Fenced",
    "InUse",
    "NameTaken",
    "NewerFormat",
    "NoJava",
    "NoSuchRow",
    "NotAStore",
    "NullKey",
    "OffsetGap",
    "OlderFormat",
    "ReadOnly",
    "SnapshotGone",
    "SqlError",
    "StoreError",
    "StoreFull",
    "SyntaxFault",
    "TailraceError",
    "Timeout",
    "UnknownColumn",
    "UnknownName",
    "Unsupported",
]


class TailraceError(Exception):
    """Base of all errors; `template` is filled with the error's data."""

    template = "{message}"

    def __init__(self, **data: Any) -> None:
        self.data = data
        super().__init__(self.template.format_map(_Shown(data)))

    def __getattr__(self, name: str) -> Any:
        try:
            return self.__dict__["data"][name]
        except KeyError:
            raise AttributeError(name) from None

    def __reduce__(self) -> tuple[Any, ...]:
        return _rebuild, (type(self), self.data)


class _Shown(dict[str, Any]):
    def __missing__(self, key: str) -> str:
        return f"<{key}>"


def _rebuild(kind: type[TailraceError], data: dict[str, Any]) -> TailraceError:
    return kind(**data)


class SqlError(TailraceError):
    """A statement is at fault. `line` and `column` (from 1) say where, when the place is known."""

    def __init__(self, **data: Any) -> None:
        super().__init__(**data)
        if data.get("line"):
            self.args = (f"{self.args[0]} (line {data['line']}, column {data['column']})",)


class SyntaxFault(SqlError):
    template = "SQL does not parse: {message}"


class UnknownName(SqlError):
    template = "no {kind} named {name!r}{hint}"

    def __init__(self, **data: Any) -> None:
        data.setdefault("hint", "")
        super().__init__(**data)


class NameTaken(SqlError):
    template = "{kind} {name!r} exists already; choose another name, or say IF NOT EXISTS"


class BeingBuilt(SqlError):
    template = "view {name!r} is being built {how}"


class Unsupported(SqlError):
    template = "{construct} is not supported: {reason}"


class InUse(SqlError):
    template = "{name!r} is used by {users}; drop those first"


class DataError(TailraceError):
    pass


class BadValue(DataError):
    template = "row {row}, column {column!r}: {value} does not fit {type}; nothing was written"


class NullKey(DataError):
    template = "row {row}: key column {column!r} of {table!r} is NULL; nothing was written"


class UnknownColumn(DataError):
    template = "row {row}: {table!r} has no column {column!r} (it has {columns}); nothing was written"


class NoSuchRow(DataError):
    template = "{table!r} has no row with key {key}; put it first"


class BadKey(DataError):
    template = "{name!r} is keyed by {columns}: {reason}"


class BadPosition(DataError):
    template = "{position!r} is no position of this store: its newest transaction is {newest}"


class BadFile(DataError):
    template = "{path}: {message}; nothing was loaded"


class BadRecording(DataError):
    template = "{path} cannot be checked: {reason}"


class BadHistory(DataError):
    template = "history of {name}: {reason}"


class StoreError(TailraceError):
    pass


class NotAStore(StoreError):
    template = "{path} is not a Tailrace store: {reason}"


class NewerFormat(StoreError):
    template = "{path} has store format {found}, this Tailrace reads up to {known}; upgrade Tailrace"


class OlderFormat(StoreError):
    template = "{path} has store format {found}, this Tailrace reads {known}; load its tables into a new store"


class StoreFull(StoreError):
    template = "{path} is full ({reason}); nothing of this write was kept. {advice}"


class ReadOnly(StoreError):
    template = "{path} may not be written ({reason}); readers, too, note there who they are. Let this user write there"


class Corrupt(StoreError):
    template = "{where} is damaged: {reason}. `tailrace audit` finds all damage, `tailrace audit --repair` mends it"


class Conflict(StoreError):
    template = "document {document!r} was changed by another process meanwhile; nothing was written. Try again"


class OffsetGap(StoreError):
    template = (
        "log of node {node}: expected offset {expected}, found {found}."
        " `tailrace audit` finds all damage, `tailrace audit --repair` mends it"
    )


class SnapshotGone(StoreError):
    template = "epoch {epoch} of {name!r} is no longer held (oldest: {oldest}); read again"


class Ended(StoreError):
    template = "this {what} has ended; begin another"


class Closed(StoreError):
    template = "the store at {path} was closed"


class EpochError(TailraceError):
    pass


class Timeout(EpochError):
    template = "{name} is at position {covered}, {behind} short of {wanted}, after {waited:.1f} s; {advice}"


class BuildFailed(EpochError):
    template = "view {name!r} could not be built: {reason}; nothing of it is kept, and nothing else was changed"


class EpochsLocked(EpochError):
    template = "epochs of {path} are run by process {pid} ({command}, since {since}); stop it first"


class Fenced(EpochError):
    template = (
        "another process took over the epochs of this store (term {newest}, this process has term {term});"
        " nothing was written. Start this process again"
    )


class EpochFailed(EpochError):
    template = "epoch {epoch} failed and was not committed (it is retried by the next refresh): {reason}"


class EnvironmentFault(TailraceError):
    pass


class NoJava(EnvironmentFault):
    template = "Spark needs Java 17 or newer: {reason}. Set JAVA_HOME, or `pip install 'tailrace[java]'`"
