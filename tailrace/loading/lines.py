"""JSON lines: one object per line.

Arrow's parser takes a block of lines at once. A block it will not take is gone through line by line in
Python, which knows what to say about each, and takes what Arrow is too strict about.
"""

from __future__ import annotations

import io
import re
from collections.abc import Iterator
from pathlib import Path

import pyarrow as pa
import pyarrow.json

from tailrace.codec import text
from tailrace.codec.convert import to_batch
from tailrace.codec.schema import TableDef
from tailrace.errors import BadFile, BadValue, NullKey, UnknownColumn
from tailrace.loading.files import Options, Piece, Source, fault

BLOCK = 8 << 20  # bytes
LONGEST = 1 << 28  # bytes of a line
_TINY = re.compile(rb"""[:"\s][-+]?[0-9.]+[eE]-0*[0-9]{2,}["\s,}]""")
_DISGUISED = re.compile(rb"\\u00(?:2[dD]|3[0-9]|[46]5)")  # the characters of an exponent, escaped


def read(path: Path, table: TableDef, options: Options) -> Iterator[Piece]:
    number = 1
    try:
        with Source(path) as source:
            for block in _blocks(path, source):
                rows = _fast(table, block)
                if rows is None:
                    rows = _slow(path, table, block, number)
                yield Piece(rows, source.done)
                number += block.count(b"\n")
    except OSError as error:
        raise BadFile(path=str(path), message=f"it cannot be read ({error})") from None


def _blocks(path: Path, source: Source) -> Iterator[bytes]:
    """The bytes of a file, cut at ends of lines."""
    rest, number = b"", 1
    while data := source.stream.read(BLOCK):
        rest += data
        whole, newline, rest = rest.rpartition(b"\n")
        if whole.strip():
            yield whole + newline
            number += whole.count(b"\n") + 1
        else:
            rest = whole + newline + rest
        if len(rest) > LONGEST:
            said = f"the lines from {number} on are longer than {LONGEST >> 20} MiB"
            raise BadFile(path=str(path), message=said, line=number)
    if rest.strip():
        yield rest


def _fast(table: TableDef, block: bytes) -> pa.RecordBatch | None:
    """A block by Arrow, if it has one object of the table's columns on each line."""
    if any(pa.types.is_decimal(f.type) for f in table.schema) and _tiny_numbers(block):
        return None
    fields = [pa.field(f.name, pa.string() if _textual(f.type) else f.type) for f in table.schema]
    options = pyarrow.json.ParseOptions(explicit_schema=pa.schema(fields), unexpected_field_behavior="error")
    reading = pyarrow.json.ReadOptions(block_size=len(block) + 1)
    try:
        block.decode()
        found = pyarrow.json.read_json(io.BytesIO(block), reading, options).combine_chunks()
        if found.num_rows != sum(1 for line in io.BytesIO(block) if line.strip()):
            return None
        arrays = [_column(found, f.name, f.type) for f in table.schema]
        return to_batch(table, pa.RecordBatch.from_arrays(arrays, schema=table.schema))
    except (pa.ArrowInvalid, pa.ArrowNotImplementedError, UnicodeDecodeError, BadValue, NullKey):
        return None


def _tiny_numbers(block: bytes) -> bool:
    """Whether a number may have a large negative exponent, or be written so that one cannot tell: Arrow 26 crashes."""
    if b"e-" not in block and b"E-" not in block and b"\\u00" not in block:
        return False
    return _TINY.search(block) is not None or _DISGUISED.search(block) is not None


def _textual(kind: pa.DataType) -> bool:
    return bool(pa.types.is_date(kind) or pa.types.is_timestamp(kind) or pa.types.is_binary(kind))


def _column(found: pa.Table, name: str, kind: pa.DataType) -> pa.Array:
    column = found.column(name).combine_chunks()
    return text.array_of(column, name, kind) if _textual(kind) else column


def _slow(path: Path, table: TableDef, block: bytes, first: int) -> pa.RecordBatch:
    """A block line by line: its rows, or the first fault and its line."""
    rows, numbers = [], []
    for number, line in enumerate(block.split(b"\n"), first):
        if line.strip():
            rows.append(text.row_from_json(_parsed(path, line, number), table.columns))
            numbers.append(number)
    try:
        return to_batch(table, rows)
    except (BadValue, NullKey, UnknownColumn) as error:
        raise fault(path, error, "line", numbers[error.row]) from None


def _parsed(path: Path, line: bytes, number: int) -> object:
    try:
        found = text.from_json(line)
    except ValueError as error:
        hint = "; one JSON object per line is needed, not one array" if line.lstrip().startswith(b"[") else ""
        message = f"line {number} is not JSON ({error}){hint}"
        raise BadFile(path=str(path), message=message, line=number) from None
    if isinstance(found, dict):
        return found
    kind = "an array" if isinstance(found, list) else "a value"
    message = f"line {number} is {kind}, not a JSON object; one object per line is needed"
    raise BadFile(path=str(path), message=message, line=number)
