"""The file format of recordings: base and view histories in one Arrow IPC file, which any system can write.

    kind    name          epoch    transaction   key          row
    base    table         -        -             JSON array   JSON object         an initial row
    base    table         -        number        JSON array   JSON object, NULL   the row from then on; NULL: deleted
    epoch   - (or view)   number   number, -     -            JSON object, -      the views were observed at this cut
    view    view          number   -             JSON array   JSON object, NULL   the same for a row of the view

- is NULL. `epoch` and `transaction` are BIGINT, the other columns are strings. Base changes are in the order of their
transactions, epochs in the order of their numbers. The first epoch of a view lists all of its rows. If a view has no
key, `key` has all values of the row, and the row also has `_weight`, the number of copies. An epoch row with a name is
for that view only. An epoch row without a transaction means that the cut is unknown. Its `row` may have the `time` of
the epoch, what `now()` is in views (microseconds since 1970); views that use it need it.

The schema metadata has one entry, `tailrace.recording`, a JSON object with `format` (1), `tables` (a list of CREATE
TABLE statements) and `views`. `views` is a list of objects, each after the views that it reads: `name`, `sql` (its
query), `key` (a list of column names, or null), `recorded` (false if it is listed only because others read it) and
`plan` (written only by Tailrace; it breaks the ties that the SQL leaves open).

Tailrace adds checksums: `tailrace.crc32` in the schema metadata covers that JSON object. If it is present, `crc32` in
the metadata of each batch covers the batch's rows, and a final empty batch has the total number of rows (`rows`).
"""

from __future__ import annotations

import json
import os
import zlib
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from types import TracebackType
from typing import Any, NamedTuple

import pyarrow as pa

from tailrace.codec.schema import TableDef
from tailrace.errors import BadRecording, StoreError, TailraceError
from tailrace.plan.sql.statements import CreateTable, parse

FORMAT = 1
ENTRY = b"tailrace.recording"
SEAL = b"tailrace.crc32"
_CRC, _ROWS = b"crc32", b"rows"
COLUMNS = pa.schema(
    [
        ("kind", pa.string()),
        ("name", pa.string()),
        ("epoch", pa.int64()),
        ("transaction", pa.int64()),
        ("key", pa.string()),
        ("row", pa.string()),
    ]
)


class Line(NamedTuple):
    """One row of the file."""

    kind: str
    name: str | None = None
    epoch: int | None = None
    transaction: int | None = None
    key: str | None = None
    row: str | None = None


@dataclass(frozen=True)
class RecordedView:
    """A view as the file defines it. `plan` is its plan as JSON, present only if the SQL leaves ties open."""

    name: str
    sql: str
    key: tuple[str, ...] | None
    recorded: bool = True
    plan: Any = None


@dataclass(frozen=True)
class Header:
    tables: tuple[TableDef, ...]
    views: tuple[RecordedView, ...]


class Writer:
    """Writes a recording to a draft file. On exit, the draft gets its final name if `whole` is set, or is deleted.

    Raises `StoreError` if the file cannot be written, or exists and is not to be overwritten.
    """

    whole = False

    def __init__(self, path: Path, header: Header, *, overwrite: bool = False) -> None:
        require_new(path, overwrite=overwrite)
        self._path, self._overwrite = path, overwrite
        self._draft = path.with_name(f".{path.name}.{os.getpid()}")
        try:
            handle = os.open(self._draft, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600)
        except OSError as error:
            advice = "Choose a file in a directory that exists and that this user can write to"
            raise StoreError(message=f"cannot write {path}: {error.strerror}. {advice}", path=str(path)) from error
        self._file = os.fdopen(handle, "wb")
        text = _header_json(header)
        schema = COLUMNS.with_metadata({ENTRY: text, SEAL: _number(zlib.crc32(text))})
        options = pa.ipc.IpcWriteOptions(compression="zstd")
        self._writer = pa.ipc.new_file(self._file, schema, options=options)
        self._schema, self._rows = schema, 0

    def write(self, lines: Sequence[Line]) -> None:
        if lines:
            columns = [pa.array(c, f.type) for c, f in zip(zip(*lines, strict=True), COLUMNS, strict=True)]
            batch = pa.RecordBatch.from_arrays(columns, schema=self._schema)
            self._writer.write_batch(batch, custom_metadata={_CRC: _checksum(batch)})
            self._rows += len(lines)

    def __enter__(self) -> Writer:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        empty = pa.RecordBatch.from_pylist([], self._schema)
        self._writer.write_batch(empty, custom_metadata={_CRC: _checksum(empty), _ROWS: _number(self._rows)})
        self._writer.close()
        self._file.close()
        if self.whole:
            self._publish()
        else:
            self._draft.unlink()

    def _publish(self) -> None:
        """Gives the draft its name. It keeps its own name if another process has written that file meanwhile."""
        if self._overwrite:
            self._draft.rename(self._path)
            return
        try:
            os.link(self._draft, self._path)
        except FileExistsError:
            message = f"{self._path} was written by another process meanwhile; this recording is in {self._draft}"
            raise StoreError(message=message, path=str(self._draft)) from None
        self._draft.unlink()


def require_new(path: Path, *, overwrite: bool) -> None:
    """Raises `StoreError` if a path exists and is not a file that may be overwritten."""
    if path.is_dir() or (path.exists() and not overwrite):
        what = "is a directory" if path.is_dir() else "already exists"
        advice = "Choose another file" + ("" if path.is_dir() else ", or overwrite it (--overwrite)")
        raise StoreError(message=f"{path} {what}. {advice}; nothing was changed", path=str(path))


def _checksum(batch: pa.RecordBatch) -> bytes:
    return _number(zlib.crc32(json.dumps(batch.to_pydict()).encode()))


def _number(number: int) -> bytes:
    return str(number).encode()


def _header_json(header: Header) -> bytes:
    views = [
        {
            "name": v.name,
            "sql": v.sql,
            "key": None if v.key is None else list(v.key),
            "recorded": v.recorded,
            **({} if v.plan is None else {"plan": v.plan}),
        }
        for v in header.views
    ]
    return json.dumps({"format": FORMAT, "tables": [ddl(t) for t in header.tables], "views": views}).encode()


def ddl(table: TableDef) -> str:
    """The CREATE TABLE statement of a table."""
    columns = ", ".join(f"{_quoted(c.name)} {c.type.upper()}" for c in table.columns)
    return f"CREATE TABLE {_quoted(table.name)} ({columns}, PRIMARY KEY ({', '.join(map(_quoted, table.key))}))"


def _quoted(name: str) -> str:
    return "`" + name.replace("`", "``") + "`"


# reading


class Reader:
    """Reads and validates a recording. Raises `BadRecording` if the file is not one, or is damaged."""

    def __init__(self, path: Path) -> None:
        self.path = path
        try:
            self._file = pa.ipc.open_file(pa.memory_map(str(path)))
            metadata = self._file.schema.metadata or {}
        except FileNotFoundError:
            raise self.refused("no such file") from None
        except (pa.ArrowException, OSError) as error:
            raise self.refused(f"not a complete Arrow file ({_first_line(error)})") from None
        if ENTRY not in metadata:
            raise self.refused(f"not a recording: the schema metadata has no entry {ENTRY.decode()!r}")
        if not self._file.schema.remove_metadata().equals(COLUMNS):
            columns = ", ".join(f"{f.name} {f.type}" for f in COLUMNS)
            raise self.refused(f"wrong columns; a recording has {columns}")
        self._sealed = SEAL in metadata
        if self._sealed and metadata[SEAL] != _number(zlib.crc32(metadata[ENTRY])):
            raise self.refused("the metadata is damaged: checksum mismatch")
        self.header = self._header(metadata[ENTRY])

    def refused(self, reason: str) -> BadRecording:
        return BadRecording(path=str(self.path), reason=reason)

    def lines(self) -> Iterator[tuple[int, Line]]:
        """All rows in order, numbered from 1."""
        number, expected = 0, b""
        for index in range(self._file.num_record_batches):
            batch, metadata = self._batch(index)
            expected = metadata.get(_ROWS, b"")
            for row in zip(*(column.to_pylist() for column in batch.columns), strict=True):
                number += 1
                yield number, Line(*row)
        if self._sealed and expected != _number(number):
            count = expected.decode(errors="replace") or "more"
            raise self.refused(f"wrong number of rows: {number}, expected {count}")

    def _batch(self, index: int) -> tuple[pa.RecordBatch, dict[bytes, bytes]]:
        try:
            read = self._file.get_batch_with_custom_metadata(index)
            read.batch.validate(full=True)
        except (pa.ArrowException, OSError) as error:
            raise self.refused(f"batch {index} is damaged ({_first_line(error)})") from None
        metadata = dict(read.custom_metadata or {})
        if self._sealed and metadata.get(_CRC) != _checksum(read.batch):
            raise self.refused(f"batch {index} is damaged: checksum mismatch")
        return read.batch, metadata

    def _header(self, text: bytes) -> Header:
        try:
            document = json.loads(text)
            if document["format"] != FORMAT:
                raise self.refused(f"the file has format {document['format']}; this Tailrace reads format {FORMAT}")
            tables = tuple(_table(i, sql) for i, sql in enumerate(document["tables"], 1))
            views = tuple(_view(v) for v in document["views"])
        except (ValueError, KeyError, TypeError, AttributeError) as error:
            raise self.refused(f"invalid metadata: {type(error).__name__} {error}") from None
        except TailraceError as error:
            raise error if isinstance(error, BadRecording) else self.refused(str(error)) from None
        if not any(v.recorded for v in views):
            raise self.refused("the file records no view")
        names = [t.name for t in tables] + [v.name for v in views]
        if duplicates := [n for n in names if names.count(n) > 1]:
            raise self.refused(f"two tables or views are named {duplicates[0]!r}")
        return Header(tables, views)


def _table(number: int, sql: str) -> TableDef:
    (statement,) = parse(sql)
    if not isinstance(statement, CreateTable):
        raise ValueError(f"{sql[:60]!r} is not a CREATE TABLE statement")
    return TableDef(number, statement.name, statement.columns, statement.key)


def _view(document: Any) -> RecordedView:
    key = document["key"]
    if not isinstance(document["name"], str) or not isinstance(document["sql"], str):
        raise ValueError("a view's name and sql must be strings")
    return RecordedView(
        document["name"],
        document["sql"],
        None if key is None else tuple(str(k) for k in key),
        bool(document.get("recorded", True)),
        document.get("plan"),
    )


def _first_line(error: Exception) -> str:
    return str(error).splitlines()[0] if str(error) else type(error).__name__
