"""Recordings: base and view histories in one Arrow IPC file, which any system can write.

    kind    name          epoch    transaction   key          row
    base    its table     -        -             JSON array   JSON object         a row that was there first
    base    its table     -        number        JSON array   JSON object, NULL   a row from then on; NULL: deleted
    epoch   - (or view)   number   number, -     -            -                   what follows was seen, at that cut
    view    its view      number   -             JSON array   JSON object, NULL   a row of the view from that epoch on

`epoch` and `transaction` are BIGINT, all else is text; - is NULL. Base changes come by rising transaction, epochs by
rising number. At its first epoch all rows of a view are given. A row of a view without a key has all of its values
for its key, and says in `_weight` how often it is there. An epoch row with a name is of that view alone; one without a
transaction is of states whose cut is unknown.

The schema's metadata has one entry, `tailrace.recording`, a JSON object: `format` (1), `tables` (a list of CREATE
TABLE statements) and `views`, a list of objects, each after those that it reads: `name`, `sql` (its query), `key` (a
list of column names, null if it has none), `recorded` (false for one that is only there for others), and `plan`, which
only Tailrace writes: what decides where the SQL leaves ties open.

Tailrace seals its files: `tailrace.crc32` in the schema's metadata is the checksum of that object. Then every batch has
the checksum of its rows in its own metadata (`crc32`), and a last one without rows says how many there are (`rows`).
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
from tailrace.errors import BadRecording, TailraceError
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
    """A view as the file defines it; `plan` is the JSON of its plan, if there is need of one."""

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
    """Writes a recording. The file appears under its name at the end, if it says that it is whole by then."""

    whole = False

    def __init__(self, path: Path, header: Header) -> None:
        self._path, self._draft = path, path.with_name(f".{path.name}.{os.getpid()}")
        handle = os.open(self._draft, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600)
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
        nothing = pa.RecordBatch.from_pylist([], self._schema)
        self._writer.write_batch(nothing, custom_metadata={_CRC: _checksum(nothing), _ROWS: _number(self._rows)})
        self._writer.close()
        self._file.close()
        if self.whole:
            self._draft.rename(self._path)
        else:
            self._draft.unlink()


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
    """The statement that makes a table."""
    columns = ", ".join(f"{_quoted(c.name)} {c.type.upper()}" for c in table.columns)
    return f"CREATE TABLE {_quoted(table.name)} ({columns}, PRIMARY KEY ({', '.join(map(_quoted, table.key))}))"


def _quoted(name: str) -> str:
    return "`" + name.replace("`", "``") + "`"


# reading


class Reader:
    """A recording that is opened for reading; `BadRecording` says what is wrong with it."""

    def __init__(self, path: Path) -> None:
        self.path = path
        try:
            self._file = pa.ipc.open_file(pa.memory_map(str(path)))
            metadata = self._file.schema.metadata or {}
        except FileNotFoundError:
            raise self.refused("there is no such file") from None
        except (pa.ArrowException, OSError) as error:
            raise self.refused(f"it is no whole Arrow file ({_first_line(error)})") from None
        if ENTRY not in metadata:
            raise self.refused(f"its metadata has no entry {ENTRY.decode()!r}, so it is no recording")
        if not self._file.schema.remove_metadata().equals(COLUMNS):
            wanted = ", ".join(f"{f.name} {f.type}" for f in COLUMNS)
            raise self.refused(f"a recording has the columns {wanted}; it has others")
        self._sealed = SEAL in metadata
        if self._sealed and metadata[SEAL] != _number(zlib.crc32(metadata[ENTRY])):
            raise self.refused("its metadata is damaged: its checksum does not match")
        self.header = self._header(metadata[ENTRY])

    def refused(self, reason: str) -> BadRecording:
        return BadRecording(path=str(self.path), reason=reason)

    def lines(self) -> Iterator[tuple[int, Line]]:
        """All rows in order, each with its number from 1."""
        number, said = 0, b""
        for index in range(self._file.num_record_batches):
            batch, metadata = self._batch(index)
            said = metadata.get(_ROWS, b"")
            for row in zip(*(column.to_pylist() for column in batch.columns), strict=True):
                number += 1
                yield number, Line(*row)
        if self._sealed and said != _number(number):
            raise self.refused(f"it has {number} rows, and should have {said.decode(errors='replace') or 'more'}")

    def _batch(self, index: int) -> tuple[pa.RecordBatch, dict[bytes, bytes]]:
        try:
            found = self._file.get_batch_with_custom_metadata(index)
            found.batch.validate(full=True)
        except (pa.ArrowException, OSError) as error:
            raise self.refused(f"batch {index} is damaged ({_first_line(error)})") from None
        metadata = dict(found.custom_metadata or {})
        if self._sealed and metadata.get(_CRC) != _checksum(found.batch):
            raise self.refused(f"batch {index} is damaged: its checksum does not match")
        return found.batch, metadata

    def _header(self, text: bytes) -> Header:
        try:
            found = json.loads(text)
            if found["format"] != FORMAT:
                raise self.refused(f"it has format {found['format']}, this Tailrace reads {FORMAT}")
            tables = tuple(_table(i, sql) for i, sql in enumerate(found["tables"], 1))
            views = tuple(_view(v) for v in found["views"])
        except (ValueError, KeyError, TypeError, AttributeError) as error:
            raise self.refused(f"its metadata is wrong: {type(error).__name__} {error}") from None
        except TailraceError as error:
            raise error if isinstance(error, BadRecording) else self.refused(str(error)) from None
        if not any(v.recorded for v in views):
            raise self.refused("it records no view")
        names = [t.name for t in tables] + [v.name for v in views]
        if double := [n for n in names if names.count(n) > 1]:
            raise self.refused(f"two tables or views are named {double[0]!r}")
        return Header(tables, views)


def _table(number: int, sql: str) -> TableDef:
    (statement,) = parse(sql)
    if not isinstance(statement, CreateTable):
        raise ValueError(f"{sql[:60]!r} is no CREATE TABLE")
    return TableDef(number, statement.name, statement.columns, statement.key)


def _view(found: Any) -> RecordedView:
    key = found["key"]
    if not isinstance(found["name"], str) or not isinstance(found["sql"], str):
        raise ValueError("a view's name and sql are texts")
    return RecordedView(
        found["name"],
        found["sql"],
        None if key is None else tuple(str(k) for k in key),
        bool(found.get("recorded", True)),
        found.get("plan"),
    )


def _first_line(error: Exception) -> str:
    return str(error).splitlines()[0] if str(error) else type(error).__name__
