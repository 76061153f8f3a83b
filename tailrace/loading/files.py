"""Code shared by the readers of all file formats: options, decompression, column names, errors."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, replace
from pathlib import Path
from typing import NamedTuple

import pyarrow as pa

from tailrace.codec.python_values import brief
from tailrace.codec.schema import TableDef
from tailrace.errors import BadFile, BadValue, NullKey, UnknownColumn


@dataclass(frozen=True)
class Options:
    """How to read files.

    format      csv, tsv, jsonl or parquet; by default guessed from the file's name
    delimiter   the character between the fields of a CSV line
    header      whether the first line of a CSV file names its columns; if not, they are the table's, in order
    null        the unquoted text that means NULL in a CSV file
    """

    format: str | None = None
    delimiter: str = ","
    header: bool = True
    null: str = ""

    def with_tabs(self) -> Options:
        return replace(self, delimiter="\t") if self.delimiter == "," else self


class Piece(NamedTuple):
    """Some rows of a file, converted to the table's types, and the fraction of the file read so far."""

    rows: pa.RecordBatch
    done: float


COMPRESSED = {".gz": "gzip", ".bz2": "bz2", ".zst": "zstd", ".lz4": "lz4"}


class Source:
    """A file as a byte stream, decompressed according to its name. `done` is the fraction read so far."""

    def __init__(self, path: Path) -> None:
        self._size = path.stat().st_size
        self._raw = pa.OSFile(str(path))
        codec = COMPRESSED.get(path.suffix.lower())
        self.stream = pa.CompressedInputStream(self._raw, codec) if codec else self._raw

    @property
    def done(self) -> float:
        return 1.0 if self._raw.closed else min(1.0, self._raw.tell() / self._size)

    def __enter__(self) -> Source:
        return self

    def __exit__(self, *_: object) -> None:
        self.stream.close()
        self._raw.close()


def match_columns(path: Path, table: TableDef, names: Iterable[str], where: str) -> list[str]:
    """The table's spelling of a file's column names. BadFile if a name is unknown or repeated, or a key is missing."""
    known = {n.lower(): n for n in table.schema.names}
    matched: list[str] = []
    for name in names:
        own = known.get(name.strip().lower())
        if own is None:
            columns = ", ".join(table.schema.names)
            message = f"{where}{table.name!r} has no column {brief(name.strip())} (known: {columns})"
            raise BadFile(path=str(path), message=message, column=name)
        if own in matched:
            raise BadFile(path=str(path), message=f"{where}column {own!r} appears twice", column=own)
        matched.append(own)
    for key in table.key:
        if key not in matched:
            message = f"{where}key column {key!r} of {table.name!r} is missing"
            raise BadFile(path=str(path), message=message, column=key)
    return matched


def to_bad_file(path: Path, error: BadValue | NullKey | UnknownColumn, unit: str, number: int) -> BadFile:
    """Converts the error of a row to an error of its file. `unit` is "line" or "row"."""
    match error:
        case BadValue():
            message = f"{unit} {number}, column {error.column!r}: {error.value} does not fit {error.type}"
        case NullKey():
            message = f"{unit} {number}: key column {error.column!r} is NULL"
        case UnknownColumn():
            known = f"(known: {error.columns})"
            message = f"{unit} {number}: {error.table!r} has no column {error.column!r} {known}"
    return BadFile(path=str(path), message=message, **{unit: number, "column": error.data.get("column")})
