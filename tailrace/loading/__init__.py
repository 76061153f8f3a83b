"""Loads CSV, JSON lines and Parquet files into a table, in two passes.

    checking    reads and converts every row of every file; the first bad row raises an error that names its line
    writing     puts the rows, CHUNK at a time, each chunk in one transaction

A broken file therefore changes nothing. Memory does not grow with the size of the files: the second pass reads them
again, unless all rows fit in MAX_BUFFERED bytes.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

import pyarrow as pa

from tailrace.codec.layouts import Layout
from tailrace.codec.schema import TableDef
from tailrace.codec.text import format_cell
from tailrace.database.table import Table
from tailrace.errors import BadFile
from tailrace.loading import delimited, lines, parquet
from tailrace.loading.files import COMPRESSED, Options, Piece

__all__ = ["FORMATS", "Options", "Step", "load"]

CHUNK = 50_000  # rows in a transaction
MAX_BUFFERED = 64 << 20  # bytes of checked rows kept in memory for the writing pass
READERS: dict[str, Callable[[Path, TableDef, Options], Iterator[Piece]]] = {
    "csv": delimited.read,
    "tsv": delimited.read,
    "jsonl": lines.read,
    "parquet": parquet.read,
}
FORMATS = tuple(READERS)
_EXTENSIONS = {
    "csv": "csv",
    "tsv": "tsv",
    "jsonl": "jsonl",
    "ndjson": "jsonl",
    "json": "jsonl",
    "parquet": "parquet",
}


@dataclass(frozen=True)
class Step:
    """The progress of a load: its phase, the rows of this phase so far, and the fraction done of the whole load."""

    phase: str
    rows: int
    done: float


Progress = Callable[[Step], None]


def load(
    table: Table,
    paths: Sequence[str | os.PathLike[str]],
    options: Options | None = None,
    progress: Progress | None = None,
) -> int:
    """Puts the rows of all files into a table, or none if a file is broken. Returns the number of rows."""
    files = [_File(Path(p), options or Options()) for p in paths]
    columns, defaults = tuple(table.columns), {name: format_cell(value) for name, value in table.defaults.items()}
    definition = TableDef(0, table.name, columns, tuple(table.key), Layout.of(columns, defaults))
    report = progress or (lambda _: None)
    buffered = _check(files, definition, report)
    rows = 0
    for chunk in _chunks(files, definition, "writing", report) if buffered is None else _replay(buffered, report):
        table.put_many(chunk)
        rows += chunk.num_rows
    return rows


def _check(files: list[_File], table: TableDef, report: Progress) -> list[pa.RecordBatch] | None:
    """Reads and converts all files. Returns their rows, or None if they exceed MAX_BUFFERED."""
    buffered: list[pa.RecordBatch] = []
    size = 0
    for chunk in _chunks(files, table, "checking", report):
        size += chunk.nbytes
        if size <= MAX_BUFFERED:
            buffered.append(chunk)
    return buffered if size <= MAX_BUFFERED else None


def _replay(buffered: list[pa.RecordBatch], report: Progress) -> Iterator[pa.RecordBatch]:
    rows, total = 0, sum(chunk.num_rows for chunk in buffered)
    for chunk in buffered:
        yield chunk
        rows += chunk.num_rows
        report(Step("writing", rows, 0.5 + rows / total / 2))


class _File:
    """A file to load, with its format and options."""

    def __init__(self, path: Path, options: Options) -> None:
        self.path = path
        self.kind = options.format or _guess_format(path)
        self.options = options.with_tabs() if self.kind == "tsv" else options
        if not path.is_file():
            message = "not a file" if path.exists() else "no such file"
            raise BadFile(path=str(path), message=message)
        self.size = path.stat().st_size
        if not self.size:
            raise BadFile(path=str(path), message="the file is empty")

    def read(self, table: TableDef) -> Iterator[Piece]:
        return READERS[self.kind](self.path, table, self.options)


def _guess_format(path: Path) -> str:
    name = path.name.lower()
    for suffix in COMPRESSED:
        name = name.removesuffix(suffix)
    extension = name.rpartition(".")[2]
    if extension not in _EXTENSIONS:
        known = ", ".join(f".{e}" for e in _EXTENSIONS)
        message = f"unknown file extension (known: {known}); choose the format with --format"
        raise BadFile(path=str(path), message=message)
    return _EXTENSIONS[extension]


def _chunks(files: list[_File], table: TableDef, phase: str, report: Progress) -> Iterator[pa.RecordBatch]:
    """The rows of all files in batches of at most CHUNK rows. Small pieces of a file are combined."""
    total = sum(f.size for f in files)
    rows, finished_bytes = 0, 0
    for file in files:
        pending: list[pa.RecordBatch] = []
        for piece in file.read(table):
            pending.append(piece.rows)
            rows += piece.rows.num_rows
            done = (finished_bytes + piece.done * file.size) / total
            report(Step(phase, rows, done / 2 if phase == "checking" else 0.5 + done / 2))
            if sum(b.num_rows for b in pending) >= CHUNK:
                yield from _rechunk(pending)
                pending = []
        yield from _rechunk(pending)
        finished_bytes += file.size


def _rechunk(batches: list[pa.RecordBatch]) -> list[pa.RecordBatch]:
    if not batches:
        return []
    combined = pa.Table.from_batches(batches).combine_chunks().to_batches()
    return [b.slice(i, CHUNK) for b in combined for i in range(0, b.num_rows, CHUNK)]
