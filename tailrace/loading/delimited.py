"""Reads CSV files.

Arrow splits lines into text fields, and `tailrace.codec.text` parses the values. If a line is broken, Python's `csv`
reads the file again to find its number, because it also counts lines inside quotes.

An empty field is NULL, except a quoted one in a STRING column, which is the empty string.
"""

from __future__ import annotations

import csv
import io
from collections.abc import Generator, Iterator
from contextlib import closing
from itertools import islice
from pathlib import Path

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.csv

from tailrace.codec import text
from tailrace.codec.convert import to_batch
from tailrace.codec.schema import TableDef
from tailrace.errors import BadFile, BadValue, NullKey
from tailrace.loading.files import Options, Piece, Source, match_columns, to_bad_file
from tailrace.words import count

BLOCK = 8 << 20  # bytes


def read(path: Path, table: TableDef, options: Options) -> Iterator[Piece]:
    """The rows of a file. The header names the columns; without one they are the table's columns, in order."""
    width = 0
    try:
        with closing(_records(path, options)) as records:
            first_two = list(islice(records, 2))
        if not first_two:
            raise BadFile(path=str(path), message="the file is empty")
        header, names = _columns(path, table, options, first_two[0])
        width = len(header)
        if options.header and len(first_two) == 1:
            return
        _refuse_open_quote(path, options)
        yield from _pieces(path, table, options, header, names)
    except pa.ArrowInvalid as error:
        raise _find_fault(path, options, width, error) from None
    except OSError as error:
        raise BadFile(path=str(path), message=f"cannot be read ({error})") from None


def _pieces(path: Path, table: TableDef, options: Options, header: list[str], names: list[str]) -> Iterator[Piece]:
    before = 0
    with Source(path) as source:
        for batch in _reader(source, header, options):
            yield Piece(_convert(path, table, options, batch.rename_columns(names), before), source.done)
            before += batch.num_rows


def _columns(
    path: Path, table: TableDef, options: Options, first: tuple[int, list[str]]
) -> tuple[list[str], list[str]]:
    """The column names as the file spells them, and as the table does."""
    line, fields = first
    if options.header:
        return fields, match_columns(path, table, fields, f"line {line}: ")
    names = table.schema.names
    if len(fields) != len(names):
        found, expected = count(len(fields), "field"), count(len(names), "column")
        message = f"line {line} has {found}, but {table.name!r} has {expected}"
        raise BadFile(path=str(path), message=message, line=line)
    return names, names


def _reader(source: Source, header: list[str], options: Options) -> Iterator[pa.RecordBatch]:
    batches = pyarrow.csv.open_csv(
        source.stream,
        pyarrow.csv.ReadOptions(block_size=BLOCK, column_names=None if options.header else header),
        pyarrow.csv.ParseOptions(delimiter=options.delimiter, newlines_in_values=True),
        pyarrow.csv.ConvertOptions(
            column_types=dict.fromkeys(header, pa.string()),
            null_values=[options.null],
            strings_can_be_null=True,
            quoted_strings_can_be_null=False,
        ),
    )
    return iter(batches)


def _convert(path: Path, table: TableDef, options: Options, batch: pa.RecordBatch, before: int) -> pa.RecordBatch:
    try:
        arrays = [_column(batch.column(name), name, table.schema.field(name).type) for name in batch.schema.names]
        return to_batch(table, pa.RecordBatch.from_arrays(arrays, names=batch.schema.names))
    except (BadValue, NullKey) as error:
        index = before + error.row - 1 + options.header
        with closing(_records(path, options)) as records:
            line = next((n for n, _ in islice(records, index, None)), 0)
        raise to_bad_file(path, error, "line", line) from None


def _column(texts: pa.Array, name: str, kind: pa.DataType) -> pa.Array:
    if not pa.types.is_string(kind):
        texts = pc.utf8_trim_whitespace(texts)
        texts = pc.if_else(pc.equal(texts, ""), pa.scalar(None, pa.string()), texts)
    return text.array_of(texts, name, kind)


# slow reading, to find the line of a fault


def _records(path: Path, options: Options, *, strict: bool = False) -> Generator[tuple[int, list[str]], None, None]:
    """The records of a file, each with the number of its first line. Skips empty lines, as Arrow does."""
    csv.field_size_limit(BLOCK)
    with (
        Source(path) as source,
        io.TextIOWrapper(source.stream, "utf-8-sig", errors="surrogateescape", newline="") as opened,
    ):
        reader = csv.reader(_lines(path, opened), delimiter=options.delimiter, strict=strict)
        while True:
            line = reader.line_num + 1
            try:
                fields = next(reader)
            except StopIteration:
                return
            except csv.Error as error:
                raise BadFile(path=str(path), message=f"line {line}: {_describe_csv_error(error)}", line=line) from None
            if fields:
                yield line, fields


def _lines(path: Path, opened: io.TextIOWrapper) -> Iterator[str]:
    """The lines of a file. Refuses a line longer than BLOCK, which Arrow cannot read, before it fills the memory."""
    number = 1
    while line := opened.readline(BLOCK):
        if len(line) == BLOCK:
            message = f"line {number} is longer than {BLOCK >> 20} MiB; use JSON lines or Parquet for such values"
            raise BadFile(path=str(path), message=message, line=number)
        yield line
        number += 1


def _describe_csv_error(error: csv.Error) -> str:
    if "field limit" in str(error):
        return f"a field is longer than {BLOCK >> 20} MiB, or its quote is not closed"
    return "a quote is not closed" if "end of data" in str(error) else f"quotes do not match ({error})"


def _refuse_open_quote(path: Path, options: Options) -> None:
    """Raises BadFile for a quote that is never closed: Arrow would read all later lines as one field, silently."""
    quotes = 0
    with Source(path) as source:
        while data := source.stream.read(BLOCK):
            quotes += data.count(b'"')
    if quotes % 2:
        for _ in _records(path, options, strict=True):
            pass


def _find_fault(path: Path, options: Options, width: int, error: Exception) -> BadFile:
    for line, fields in _records(path, options):
        message = None
        if len(fields) != width:
            message = f"line {line} has {len(fields)} fields, expected {width}"
        elif any("\udc80" <= char <= "\udcff" for field in fields for char in field):
            message = f"line {line} is not UTF-8"
        if message:
            return BadFile(path=str(path), message=message, line=line)
    return BadFile(path=str(path), message=f"cannot be read as CSV ({error})")
