"""Load CSV, JSON lines and Parquet files into a table, in two passes.

    checking    every row of every file is read and converted; a broken one ends it, with its line
    writing     the rows are put, CHUNK at a time, each chunk one transaction

So a file that is at fault changes nothing, and memory does not grow with the size of the files: only
what is small is kept from the first pass for the second.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

import pyarrow as pa

from tailrace.codec.schema import TableDef
from tailrace.database.table import Table
from tailrace.errors import BadFile
from tailrace.loading import delimited, lines, parquet
from tailrace.loading.files import COMPRESSED, Options, Piece

__all__ = ["FORMATS", "Options", "Step", "load"]

CHUNK = 50_000  # rows in a transaction
KEPT = 64 << 20  # bytes of checked rows that are kept for writing, instead of reading them again
READERS: dict[str, Callable[[Path, TableDef, Options], Iterator[Piece]]] = {
    "csv": delimited.read,
    "tsv": delimited.read,
    "jsonl": lines.read,
    "parquet": parquet.read,
}
FORMATS = tuple(READERS)
_ENDINGS = {
    "csv": "csv",
    "tsv": "tsv",
    "jsonl": "jsonl",
    "ndjson": "jsonl",
    "json": "jsonl",
    "parquet": "parquet",
}


@dataclass(frozen=True)
class Step:
    """How far a load is: its phase, the rows in it so far, and the part done of the whole (0 to 1)."""

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
    """Put the rows of all files into a table, or none if any is broken; the number of rows."""
    files = [_File(Path(p), options or Options()) for p in paths]
    definition = TableDef(0, table.name, tuple(table.columns), tuple(table.key))
    say = progress or (lambda _: None)
    kept = _checked(files, definition, say)
    rows = 0
    for chunk in _chunks(files, definition, "writing", say) if kept is None else _again(kept, say):
        table.put_many(chunk)
        rows += chunk.num_rows
    return rows


def _checked(files: list[_File], table: TableDef, say: Progress) -> list[pa.RecordBatch] | None:
    """Go through all files; their rows, unless they are too many to keep."""
    kept: list[pa.RecordBatch] = []
    size = 0
    for chunk in _chunks(files, table, "checking", say):
        size += chunk.nbytes
        if size <= KEPT:
            kept.append(chunk)
    return kept if size <= KEPT else None


def _again(kept: list[pa.RecordBatch], say: Progress) -> Iterator[pa.RecordBatch]:
    rows, total = 0, sum(chunk.num_rows for chunk in kept)
    for chunk in kept:
        yield chunk
        rows += chunk.num_rows
        say(Step("writing", rows, 0.5 + rows / total / 2))


class _File:
    """A file and how to read it."""

    def __init__(self, path: Path, options: Options) -> None:
        self.path = path
        self.kind = options.format or _format(path)
        self.options = options.for_tabs() if self.kind == "tsv" else options
        if not path.is_file():
            message = "it is not a file" if path.exists() else "there is no such file"
            raise BadFile(path=str(path), message=message)
        self.size = path.stat().st_size
        if not self.size:
            raise BadFile(path=str(path), message="it is empty")

    def read(self, table: TableDef) -> Iterator[Piece]:
        return READERS[self.kind](self.path, table, self.options)


def _format(path: Path) -> str:
    name = path.name.lower()
    for ending in COMPRESSED:
        name = name.removesuffix(ending)
    ending = name.rpartition(".")[2]
    if ending not in _ENDINGS:
        known = ", ".join(f".{e}" for e in _ENDINGS)
        raise BadFile(path=str(path), message=f"its name does not tell its format ({known}); say --format")
    return _ENDINGS[ending]


def _chunks(files: list[_File], table: TableDef, phase: str, say: Progress) -> Iterator[pa.RecordBatch]:
    """The rows of all files, in batches of at least CHUNK rows but for the last of a file."""
    total = sum(f.size for f in files)
    rows, before = 0, 0
    for file in files:
        waiting: list[pa.RecordBatch] = []
        for piece in file.read(table):
            waiting.append(piece.rows)
            rows += piece.rows.num_rows
            part = (before + piece.done * file.size) / total
            say(Step(phase, rows, part / 2 if phase == "checking" else 0.5 + part / 2))
            if sum(b.num_rows for b in waiting) >= CHUNK:
                yield from _joined(waiting)
                waiting = []
        yield from _joined(waiting)
        before += file.size


def _joined(batches: list[pa.RecordBatch]) -> list[pa.RecordBatch]:
    """Batches as one, cut where it is much larger than a chunk."""
    if not batches:
        return []
    whole = pa.Table.from_batches(batches).combine_chunks().to_batches()
    return [b.slice(i, CHUNK) for b in whole for i in range(0, b.num_rows, CHUNK)]
