"""Reads JSON lines files: one object per line. The lines may be the elements of one array, as `--json` prints them.

Arrow parses a block of lines at once. If it refuses a block, Python parses the block line by line: it can name the bad
line, and it accepts values for which Arrow is too strict.
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
from tailrace.codec.nested_arrays import is_nested
from tailrace.codec.schema import TableDef
from tailrace.errors import BadFile, BadValue, NullKey, UnknownColumn
from tailrace.loading.files import Options, Piece, Source, to_bad_file

BLOCK = 8 << 20  # bytes
LONGEST = 1 << 28  # bytes of a line
_NEGATIVE_EXPONENT = re.compile(rb"""[:"\s][-+]?[0-9.]+[eE]-0*[0-9]{2,}["\s,}]""")
_ARRAY_START = re.compile(rb"\s*\[\s*[{\]]")
_ARRAY_END = re.compile(rb"(?:(?<=[}\s])|\A)\]\s*\Z")
_COMMA = re.compile(rb"(?<=\}),[ \t\r]*$", re.M)
_ESCAPED_EXPONENT = re.compile(rb"\\u00(?:2[dD]|3[0-9]|[46]5)")  # an escaped `-`, digit, `E` or `e`


def read(path: Path, table: TableDef, options: Options) -> Iterator[Piece]:
    number = 1
    try:
        with Source(path) as source:
            for block in _without_brackets(path, _blocks(path, source)):
                rows = _parse_with_arrow(table, block)
                if rows is None:
                    rows = _parse_lines(path, table, block, number)
                yield Piece(rows, source.done)
                number += block.count(b"\n")
    except OSError as error:
        raise BadFile(path=str(path), message=f"cannot be read ({error})") from None


def _blocks(path: Path, source: Source) -> Iterator[bytes]:
    """The bytes of a file, in blocks that end at a line end."""
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
            message = f"a line at or after line {number} is longer than {LONGEST >> 20} MiB"
            raise BadFile(path=str(path), message=message, line=number)
    if rest.strip():
        yield rest


def _without_brackets(path: Path, blocks: Iterator[bytes]) -> Iterator[bytes]:
    """The same lines without the brackets and commas of an array that has one object per line."""
    first = next(blocks, None)
    if first is None:
        return
    if not _ARRAY_START.match(first):
        yield first
        yield from blocks
        return
    pending = first.replace(b"[", b" ", 1)
    for block in blocks:
        yield _COMMA.sub(b"", pending)
        pending = block
    if not _ARRAY_END.search(pending):
        raise BadFile(path=str(path), message="the array at its beginning is not closed: the file is incomplete")
    last = _COMMA.sub(b"", _ARRAY_END.sub(b"", pending))
    if last.strip():
        yield last


def _parse_with_arrow(table: TableDef, block: bytes) -> pa.RecordBatch | None:
    """The rows of a block; None unless every line is one object with columns of the table."""
    if not all(_is_read_by_arrow(f.type) for f in table.schema if is_nested(f.type)):
        return None
    if any(pa.types.is_decimal(f.type) for f in table.schema) and _may_crash_arrow(block):
        return None
    fields = [pa.field(f.name, pa.string() if _is_parsed_from_text(f.type) else f.type) for f in table.schema]
    options = pyarrow.json.ParseOptions(explicit_schema=pa.schema(fields), unexpected_field_behavior="error")
    reading = pyarrow.json.ReadOptions(block_size=len(block) + 1)
    try:
        block.decode()
        parsed = pyarrow.json.read_json(io.BytesIO(block), reading, options).combine_chunks()
        if parsed.num_rows != sum(1 for line in io.BytesIO(block) if line.strip()):
            return None
        arrays = [_column(parsed, f.name, f.type) for f in table.schema]
        return to_batch(table, pa.RecordBatch.from_arrays(arrays, schema=table.schema))
    except (pa.ArrowInvalid, pa.ArrowNotImplementedError, UnicodeDecodeError, BadValue, NullKey):
        return None


def _may_crash_arrow(block: bytes) -> bool:
    """Whether a number may have a large negative exponent, plain or escaped: Arrow 26 crashes on it as a decimal."""
    if b"e-" not in block and b"E-" not in block and b"\\u00" not in block:
        return False
    return _NEGATIVE_EXPONENT.search(block) is not None or _ESCAPED_EXPONENT.search(block) is not None


def _is_read_by_arrow(kind: pa.DataType) -> bool:
    """Whether Arrow reads the parts of a nested type as `codec.text` does: not maps, decimals, and what has a text."""
    if pa.types.is_struct(kind):
        return all(_is_read_by_arrow(field.type) for field in kind)
    if pa.types.is_list(kind):
        return _is_read_by_arrow(kind.value_type)
    return bool(pa.types.is_boolean(kind) or pa.types.is_integer(kind) or pa.types.is_string(kind))


def _is_parsed_from_text(kind: pa.DataType) -> bool:
    tests = (pa.types.is_date, pa.types.is_timestamp, pa.types.is_duration, pa.types.is_binary)
    return any(test(kind) for test in tests)


def _column(parsed: pa.Table, name: str, kind: pa.DataType) -> pa.Array:
    column = parsed.column(name).combine_chunks()
    return text.array_of(column, name, kind) if _is_parsed_from_text(kind) else column


def _parse_lines(path: Path, table: TableDef, block: bytes, first: int) -> pa.RecordBatch:
    """The rows of a block, parsed line by line; BadFile names the first bad line. `first` numbers the first line."""
    rows, numbers = [], []
    for number, line in enumerate(block.split(b"\n"), first):
        if line.strip():
            rows.append(text.row_from_json(_parse_line(path, line, number), table.columns))
            numbers.append(number)
    try:
        return to_batch(table, rows)
    except (BadValue, NullKey, UnknownColumn) as error:
        raise to_bad_file(path, error, "line", numbers[error.row - 1]) from None


def _parse_line(path: Path, line: bytes, number: int) -> object:
    try:
        value = text.from_json(line)
    except ValueError as error:
        message = f"line {number} is not JSON ({error}); expected one JSON object per line"
        raise BadFile(path=str(path), message=message, line=number) from None
    if isinstance(value, dict):
        return value
    kind = "an array" if isinstance(value, list) else "a single value"
    message = f"line {number} is {kind}; expected one JSON object per line"
    raise BadFile(path=str(path), message=message, line=number)
