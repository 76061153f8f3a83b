"""Every error Tailrace raises.

    TailraceError
    ├── SqlError                  a statement is wrong
    │   ├── SyntaxFault           it does not parse
    │   ├── UnknownName           no such table, view or column
    │   ├── NameTaken             a table or view of that name exists
    │   ├── BeingBuilt            a view of that name is being built
    │   ├── NeverTrue             a column is compared with a text that is no value of its type
    │   ├── Unsupported           valid SQL that Tailrace cannot maintain (yet)
    │   └── InUse                 a drop of a table, view or column that views read
    ├── DataError                 a value, row, key or file is wrong
    │   ├── BadValue              a value does not fit its column's type
    │   ├── NullKey               a primary key column is NULL
    │   ├── UnknownColumn         a row has a column that its table lacks
    │   ├── NoSuchRow             an update of a row that does not exist
    │   ├── BadKey                a key with the wrong number or types of values
    │   ├── BadCell               a cell of HBase has no value of its column's type
    │   ├── BadPosition           a read waits for a position that no write to this store returned
    │   ├── BadFile               a file to load is invalid (with the line)
    │   ├── RowFailed             an expression of a view failed: raise_error(), a scalar subquery of several rows
    │   ├── BadRecording          a file to check is not a recording, or is damaged
    │   └── BadHistory            a history to check is invalid
    ├── StoreError                the store on disk
    │   ├── NotAStore             the directory is missing or holds something else
    │   ├── OptionDiffers         the store exists, with another value of an option that was given
    │   ├── NewerFormat           the store was written by a newer Tailrace
    │   ├── OlderFormat           the store was written by an older Tailrace, in an incompatible format
    │   ├── StoreFull             the memory map or the disk is full
    │   ├── ReadOnly              the directory or the disk is not writable
    │   ├── StoreElsewhere        a task on another machine needs an embedded store
    │   ├── StoreUnavailable      HBase did not answer in time
    │   ├── NotShipped            HBase does not ship its log to the store
    │   ├── RequestRefused        HBase refused a request
    │   ├── EntryTooLarge         an entry of a view does not fit into a cell of HBase
    │   ├── Corrupt               a checksum does not match, or stored data is invalid
    │   ├── Conflict              a document is not what its writer had read
    │   ├── OffsetGap             log entries are missing
    │   ├── TableAltered          a table's columns were changed during a read or write of its rows
    │   ├── SnapshotGone          the requested epoch is no longer readable
    │   ├── BadBackup             a backup or dump is damaged, or is no backup
    │   ├── NotCapable            this kind of store cannot do it
    │   ├── Ended                 a snapshot or a transaction was used after its end
    │   └── Closed                the database handle was closed
    └── EpochError                maintenance
        ├── Timeout               a view did not reach the requested position in time
        ├── ViewFailed            a view has failed and shows an earlier epoch than requested
        ├── BuildFailed           a view could not be built or replaced; the build was discarded
        ├── EpochsLocked          another process runs epochs
        ├── Fenced                another process took over the epochs of this one
        └── EpochFailed           the Spark job of an epoch failed; nothing was committed

    EnvironmentFault              something outside Tailrace is missing or failed; also a TailraceError
    ├── MissingPackage            a kind of store needs a package that is not installed
    ├── NoJava                    Spark cannot start without Java
    └── BadSetting                an option or a variable of the environment has a wrong value

The keyword arguments of an error are its data: attributes of the error, and the dict `error.data`.
Programs and tests read the data; people read the message.
"""

from __future__ import annotations

from typing import Any

__all__ = [
    "BadBackup",
    "BadCell",
    "BadFile",
    "BadHistory",
    "BadKey",
    "BadPosition",
    "BadRecording",
    "BadSetting",
    "BadValue",
    "BeingBuilt",
    "BuildFailed",
    "Closed",
    "Conflict",
    "Corrupt",
    "DataError",
    "Ended",
    "EntryTooLarge",
    "EnvironmentFault",
    "EpochError",
    "EpochFailed",
    "EpochsLocked",
    "Fenced",
    "InUse",
    "MissingPackage",
    "NameTaken",
    "NeverTrue",
    "NewerFormat",
    "NoJava",
    "NoSuchRow",
    "NotAStore",
    "NotCapable",
    "NotShipped",
    "NullKey",
    "OffsetGap",
    "OlderFormat",
    "OptionDiffers",
    "ReadOnly",
    "RequestRefused",
    "RowFailed",
    "SnapshotGone",
    "SqlError",
    "StoreElsewhere",
    "StoreError",
    "StoreFull",
    "StoreUnavailable",
    "SyntaxFault",
    "TableAltered",
    "TailraceError",
    "Timeout",
    "UnknownColumn",
    "UnknownName",
    "Unsupported",
    "ViewFailed",
]


class TailraceError(Exception):
    """Base of all errors. The message is `template`, filled with the error's data, or the `text` among the data."""

    template = "{message}"

    def __init__(self, **data: Any) -> None:
        self.data = data
        super().__init__(data["text"] if "text" in data else self.template.format_map(_Placeholders(data)))

    def __getattr__(self, name: str) -> Any:
        try:
            return self.__dict__["data"][name]
        except KeyError:
            raise AttributeError(name) from None

    def __reduce__(self) -> tuple[Any, ...]:
        return _rebuild, (type(self), self.data)


class _Placeholders(dict[str, Any]):
    """The data of an error. A missing key shows as `<key>`: an incomplete error must not raise another one."""

    def __missing__(self, key: str) -> str:
        return f"<{key}>"


def _rebuild(kind: type[TailraceError], data: dict[str, Any]) -> TailraceError:
    return kind(**data)


class SqlError(TailraceError):
    """A statement is wrong. `line` and `column` (from 1) are set if the place is known.

    `file` is the name of the file, if the caller knows it.
    """

    def __init__(self, **data: Any) -> None:
        super().__init__(**data)
        if data.get("line"):
            file = f"{data['file']}, " if data.get("file") else ""
            self.args = (f"{self.args[0]} ({file}line {data['line']}, column {data['column']})",)


class SyntaxFault(SqlError):
    template = "SQL syntax error: {message}"


class UnknownName(SqlError):
    template = "no {kind} named {name!r}{hint}"

    def __init__(self, **data: Any) -> None:
        data.setdefault("hint", "")
        super().__init__(**data)


class NameTaken(SqlError):
    template = "{kind} {name!r} already exists. Choose another name, drop it first, or add IF NOT EXISTS to keep it"


class BeingBuilt(SqlError):
    template = "view {name!r} is being built {how}"


class Unsupported(SqlError):
    template = "{construct} is not supported: {reason}"


class NeverTrue(SqlError):
    pass


class InUse(SqlError):
    template = "cannot drop {name!r}: it is read by {users}. {advice}"

    def __init__(self, **data: Any) -> None:
        data.setdefault("advice", "Drop those views first, or add CASCADE to drop them, too")
        super().__init__(**data)


class DataError(TailraceError):
    pass


class BadValue(DataError):
    template = "row {row}, column {column!r}: {value} does not fit {type}; nothing was written"


class NullKey(DataError):
    template = "row {row}: key column {column!r} of table {table!r} is NULL; nothing was written"


class UnknownColumn(DataError):
    template = "row {row}: table {table!r} has no column {column!r} (known: {columns}); nothing was written"


class NoSuchRow(DataError):
    template = "cannot update: table {table!r} has no row with key {key}; nothing was written. Insert the row with put"


class BadKey(DataError):
    template = "invalid key for {name!r} (key columns: {columns}): {reason}"


class BadCell(DataError):
    template = (
        "the cell {column} of row {row} in the HBase table {table} cannot be read: {reason}."
        " Put a valid value, or delete the cell or the row"
    )


class BadPosition(DataError):
    template = (
        "{position!r} is not a position of this store, whose newest position is {newest}."
        " Use a position that a write to this store returned"
    )


class BadFile(DataError):
    template = "{path}: {message}; nothing was loaded"


class RowFailed(DataError):
    """An expression of a view raised an error. `message` says which and for which values."""


class BadRecording(DataError):
    template = "cannot check {path}: {reason}"


class BadHistory(DataError):
    template = "invalid history of {name}: {reason}"


class StoreError(TailraceError):
    pass


class NotAStore(StoreError):
    template = (
        "{path} is not a Tailrace store: {reason}. Check the path; `tailrace init` or tailrace.open(path, create=True)"
        " makes a new store"
    )


class OptionDiffers(StoreError):
    template = "the store at {path} has {option} = {found}, but {option} = {given} was asked for. {advice}"


class NewerFormat(StoreError):
    template = "{path} was written by a newer version (format {found}; this one reads up to {known}). Upgrade Tailrace"


class OlderFormat(StoreError):
    template = (
        "{path} was written by an older Tailrace (format {found}; this one reads format {known})."
        " Read its tables with that version and load them into a new store"
    )


class StoreFull(StoreError):
    template = "cannot write to {path}: {reason}. This write was rolled back. {advice}"


class ReadOnly(StoreError):
    template = (
        "{path} is not writable ({reason}). Readers also need write access, because they register the epoch they read."
        " Give this user write access"
    )


class StoreElsewhere(StoreError):
    template = (
        "{path} is an embedded store of another machine; a task on {host} cannot open it. Run Spark on the machine of"
        " the store only (--master 'local[*]'), or keep the tables in HBase (docs/hbase.md)"
    )


class StoreUnavailable(StoreError):
    template = "{url} does not answer: {reason}. Check that HBase and its Thrift2 server run there, then try again"


class NotShipped(StoreError):
    template = (
        "HBase does not ship its log to {url}: nothing came from region {region} of table {table} in {seconds:.0f} s."
        " Run `tailrace hbase check {url}`, which says why (docs/hbase.md), then try again; nothing is lost"
    )


class RequestRefused(StoreError):
    template = "{url} refused the request {request}: {reason}"


class EntryTooLarge(StoreError):
    template = (
        "an entry of {size:,} bytes cannot be stored: HBase takes up to {limit:,} (the key of the entry is 0x{key})."
        " Shorten the row, or leave its large columns out of the view"
    )


class Corrupt(StoreError):
    template = (
        "{where} is damaged: {reason}."
        " Run `tailrace audit DIR` to find all damage and `tailrace audit DIR --repair` to repair it"
    )


class Conflict(StoreError):
    template = "document {document!r} was changed by another process meanwhile; nothing was written. Try again"


class OffsetGap(StoreError):
    template = (
        "the log of node {node} has a gap: expected offset {expected}, found {found}."
        " Run `tailrace audit DIR` to find all damage and `tailrace audit DIR --repair` to repair it"
    )


class TableAltered(StoreError):
    template = (
        "the columns of table {table!r} were changed by another process meanwhile; nothing was written. Try again"
    )


class SnapshotGone(StoreError):
    template = "epoch {epoch} of {name} is no longer readable; the oldest readable epoch is {oldest}. Read again"


class BadBackup(StoreError):
    template = "cannot restore {path}: {reason}. Nothing was created. Use another backup or dump"


class NotCapable(StoreError):
    template = "the store {store} does not support {capability}; an embedded store (a directory) does"


class Ended(StoreError):
    template = "this {what} has ended. Begin a new one"


class Closed(StoreError):
    template = "the store at {path} was closed. Open it again"


class EpochError(TailraceError):
    pass


class Timeout(EpochError):
    template = (
        "{name} does not include position {wanted}: it is at position {covered}, {behind} behind,"
        " after a wait of {waited:.1f} s. {advice}"
    )


class BuildFailed(EpochError):
    template = (
        "view {name!r} could not be built; the build was discarded and existing views are unchanged. Reason: {reason}"
    )


class ViewFailed(EpochError):
    template = (
        "view {name!r} failed at epoch {epoch} and still shows epoch {shown}. Reason: {reason}."
        " Correct or delete the row: the view then recovers by itself. Or run `tailrace resume`, or replace the view"
    )


class EpochsLocked(EpochError):
    template = "epochs of {path} are already run by process {pid} ({command}, since {since}). Stop that process first"


class Fenced(EpochError):
    template = (
        "another process has begun to run the epochs of this store (its term is {newest}, the term of this process"
        " is {term}); nothing was written. Stop one of the two; to continue here, start this process again"
    )


class EpochFailed(EpochError):
    template = "epoch {epoch} failed and was not committed; the next refresh retries it. Reason: {reason}"


class EnvironmentFault(TailraceError):
    pass


class MissingPackage(EnvironmentFault):
    template = "{url} needs the package {package}, which is not installed. Run `pip install 'tailrace[{extra}]'`"


class NoJava(EnvironmentFault):
    template = "Spark needs Java 17 or newer: {reason}. Set JAVA_HOME, or run `pip install 'tailrace[java]'`"


class BadSetting(EnvironmentFault):
    template = "{name}: {value!r} is not valid; {advice}"
