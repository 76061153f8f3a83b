"""Encodes log entries: each holds the changes of one table by one transaction on one node.

An entry is a header and an Arrow batch of the table's columns and `_weight`: the rows before the change (-1), then the
rows after it (+1). Its offset is the number of operations logged on the node before it.

    crc32 of the rest | table | operations | transaction, columns | batch (Arrow IPC, without its schema)

`columns` (the upper 16 bits) is the number of table columns in the batch if the table's layout has grown, else 0.
"""

from __future__ import annotations

import struct
import zlib
from collections.abc import Sequence
from typing import NamedTuple

import pyarrow as pa
import pyarrow.compute as pc

from tailrace.codec import batches
from tailrace.codec.layouts import LayoutCodec
from tailrace.codec.schema import TableDef
from tailrace.delta import WEIGHT
from tailrace.errors import Corrupt

_HEADER = struct.Struct("<IIIQ")
_KEY = struct.Struct(">HQ")
_NOTE = struct.Struct("<QQ")
_COLUMNS_SHIFT = 48  # transactions have 48 bits, the number of columns has 16


class Entry(NamedTuple):
    """A log entry's header, and its batch (still encoded)."""

    table: int
    operations: int
    transaction: int
    columns: int
    batch: memoryview


def log_key(node: int, offset: int) -> bytes:
    return _KEY.pack(node, offset)


def decode_log_key(key: bytes) -> tuple[int, int]:
    if len(key) != _KEY.size:
        raise Corrupt(where="the log", reason=f"a key has {len(key)} bytes instead of {_KEY.size}")
    node, offset = _KEY.unpack(key)
    return node, offset


def encode(table: TableDef, operations: int, transaction: int, batch: pa.RecordBatch) -> bytes:
    columns = 0 if table.layout is None or len(table.stored) == table.layout.first else len(table.stored)
    header = _HEADER.pack(0, table.id, operations, transaction | columns << _COLUMNS_SHIFT)
    body: bytes = header[4:] + batch.serialize().to_pybytes()
    return struct.pack("<I", zlib.crc32(body)) + body


def decode(node: int, offset: int, value: bytes | memoryview, *, checked: bool = True) -> Entry:
    """Decodes an entry's header. Raises `Corrupt` if the checksum does not match, so the entry is never applied."""
    where = f"log entry {offset} of node {node}"
    if len(value) < _HEADER.size:
        raise Corrupt(where=where, reason=f"only {len(value)} bytes, the header needs {_HEADER.size}")
    crc, table, operations, number = _HEADER.unpack_from(value)
    view = memoryview(value)
    if checked and zlib.crc32(view[4:]) != crc:
        raise Corrupt(where=where, reason="checksum does not match")
    if not operations:
        raise Corrupt(where=where, reason="it contains no operations")
    columns, transaction = number >> _COLUMNS_SHIFT, number & (1 << _COLUMNS_SHIFT) - 1
    return Entry(table, operations, transaction, columns, view[_HEADER.size :])


def logged_schema(table: TableDef) -> pa.Schema:
    return table.stored_schema.append(pa.field(WEIGHT, pa.int8()))


def decode_rows(entry: Entry, table: TableDef) -> pa.RecordBatch:
    """All stored columns and `_weight`. Columns that were added later have their defaults."""
    where = f"log entry of transaction {entry.transaction} for table {table.name!r}"
    whole = logged_schema(table)
    count = entry.columns or (len(table.stored) if table.layout is None else table.layout.first)
    if count > len(table.stored):
        raise Corrupt(where=where, reason=f"it has {count} columns, the table has {len(table.stored)}")
    if not isinstance(table.rows, LayoutCodec) or count == len(table.stored):
        return batches.read(entry.batch, whole, where)
    batch = batches.read(entry.batch, pa.schema([*list(whole)[:count], whole.field(WEIGHT)]), where)
    complete = table.rows.complete(batch.columns[:-1], batch.num_rows)
    return pa.RecordBatch.from_arrays([*complete.columns, batch.column(WEIGHT)], schema=whole)


def build_delta(table: TableDef, before: pa.RecordBatch, after: pa.RecordBatch) -> pa.RecordBatch:
    """The delta of a change, from stored batches: the rows before with weight -1, then those after with weight +1."""
    weights = pa.concat_arrays(
        [
            pa.repeat(pa.scalar(-1, pa.int8()), before.num_rows),
            pa.repeat(pa.scalar(1, pa.int8()), after.num_rows),
        ]
    )
    columns = [pa.concat_arrays([b, a]) for b, a in zip(before.columns, after.columns, strict=True)]
    return pa.RecordBatch.from_arrays([*columns, weights], schema=logged_schema(table))


def rows_before(entries: Sequence[pa.RecordBatch], table: TableDef) -> dict[bytes, bytes | None]:
    """The row of each changed key before the first of these entries, which are in log order (None: absent).

    An entry lists removed rows before added rows. So a key whose first row is an added one was absent.
    """
    old_rows: dict[bytes, bytes | None] = {}
    if entries:
        batch = pa.concat_batches(entries)
        rows = pa.RecordBatch.from_arrays(batch.columns[:-1], schema=table.stored_schema)
        keys = table.keys.encode(table.key_columns(rows)).to_pylist()
        removed = pc.less(batch.column(WEIGHT), 0).to_pylist()
        for key, row, is_removed in zip(keys, table.rows.encode(rows).to_pylist(), removed, strict=True):
            old_rows.setdefault(key, row if is_removed else None)
    return old_rows


def encode_note(written: float, operations: int, ends: Sequence[int]) -> bytes:
    """The note of a transaction: when it was written, all operations so far, and the end of each log after it."""
    return _NOTE.pack(max(0, int(written * 1e6)), operations) + struct.pack(f"<{len(ends)}Q", *ends)


def decode_note(value: bytes) -> tuple[float, int, tuple[int, ...]]:
    if len(value) < _NOTE.size or len(value) % 8:
        raise Corrupt(where="an entry of the list of transactions", reason=f"invalid length of {len(value)} bytes")
    written, operations = _NOTE.unpack_from(value)
    ends = struct.unpack_from(f"<{(len(value) - _NOTE.size) // 8}Q", value, _NOTE.size)
    return written / 1e6, operations, ends
