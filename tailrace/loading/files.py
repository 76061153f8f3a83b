"""What all kinds of files have in common."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, replace
from pathlib import Path
from typing import NamedTuple

import pyarrow as pa

from tailrace.codec.convert import brief
from tailrace.codec.schema import TableDef
from tailrace.errors import BadFile, BadValue, NullKey, UnknownColumn


@dataclass(frozen=True)
class Options:
    """How files are to be read.

    format      csv, tsv, jsonl or parquet; by default what a file's name says
    delimiter   between the fields of a CSV line
    header      the first line of a CSV file names its columns; else they are the table's, in order
    null        the text that stands for NULL in a CSV file, when it is not quoted
    """

    format: str | None = None
    delimiter: str = ","
    header: bool = True
    null: str = ""

    def for_tabs(self) -> Options:
        return replace(self, delimiter="\t") if self.delimiter == "," else self


class Piece(NamedTuple):
    """Some rows of a file, as the table holds them, and the part of the file read so far (0 to 1)."""

    rows: pa.RecordBatch
    done: float


COMPRESSED = {".gz": "gzip", ".bz2": "bz2", ".zst": "zstd", ".lz4": "lz4"}


class Source:
    """A file as a stream of bytes, decompressed if its name says so, that knows how far it was read."""

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


def own_names(path: Path, table: TableDef, names: Iterable[str], where: str) -> list[str]:
    """The table's own spelling of a file's columns; the file must have all key columns, none twice."""
    known = {n.lower(): n for n in table.schema.names}
    found: list[str] = []
    for name in names:
        own = known.get(name.strip().lower())
        if own is None:
            columns = ", ".join(table.schema.names)
            message = f"{where}{table.name!r} has no column {brief(name.strip())} (it has {columns})"
            raise BadFile(path=str(path), message=message, column=name)
        if own in found:
            raise BadFile(path=str(path), message=f"{where}column {own!r} is there twice", column=own)
        found.append(own)
    for key in table.key:
        if key not in found:
            message = f"{where}there is no column for the key {key!r} of {table.name!r}"
            raise BadFile(path=str(path), message=message, column=key)
    return found


def fault(path: Path, error: BadValue | NullKey | UnknownColumn, place: str, number: int) -> BadFile:
    """What is wrong with a row, told as a fault of its file: `place` is "line" or "row"."""
    match error:
        case BadValue():
            said = f"{place} {number}, column {error.column!r}: {error.value} does not fit {error.type}"
        case NullKey():
            said = f"{place} {number}: key column {error.column!r} is NULL"
        case UnknownColumn():
            known = f"(it has {error.columns})"
            said = f"{place} {number}: {error.table!r} has no column {error.column!r} {known}"
    return BadFile(path=str(path), message=said, **{place: number, "column": error.data.get("column")})
