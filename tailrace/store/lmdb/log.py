"""Log entries: one table's changes by one transaction on one node, as a record batch.

An entry is a header and an Arrow batch of the table's columns and `_weight`: the rows as they were
before (-1), then as they are after (+1). Its offset is the number of operations logged on the node before it.

    crc32 of all that follows | table | operations | transaction | batch (Arrow IPC, without its schema)
"""

from __future__ import annotations

import struct
import zlib
from collections.abc import Sequence
from typing import NamedTuple

import pyarrow as pa
import pyarrow.compute as pc

from tailrace.codec import batches
from tailrace.codec.schema import TableDef
from tailrace.delta import WEIGHT
from tailrace.errors import Corrupt

_HEADER = struct.Struct("<IIIQ")
_KEY = struct.Struct(">HQ")
_NOTE = struct.Struct("<QQ")


class Entry(NamedTuple):
    """A log entry's header, and where its batch starts."""

    table: int
    operations: int
    transaction: int
    batch: memoryview


def log_key(node: int, offset: int) -> bytes:
    return _KEY.pack(node, offset)


def decode_log_key(key: bytes) -> tuple[int, int]:
    if len(key) != _KEY.size:
        raise Corrupt(where="the log", reason=f"a key of {len(key)} bytes is no offset")
    node, offset = _KEY.unpack(key)
    return node, offset


def encode(table: int, operations: int, transaction: int, batch: pa.RecordBatch) -> bytes:
    body: bytes = _HEADER.pack(0, table, operations, transaction)[4:] + batch.serialize().to_pybytes()
    return struct.pack("<I", zlib.crc32(body)) + body


def decode(node: int, offset: int, value: bytes | memoryview, *, checked: bool = True) -> Entry:
    """The entry's header; a checksum that does not match is `Corrupt`, never applied."""
    where = f"log entry {offset} of node {node}"
    if len(value) < _HEADER.size:
        raise Corrupt(where=where, reason=f"{len(value)} bytes are too few")
    crc, table, operations, transaction = _HEADER.unpack_from(value)
    view = memoryview(value)
    if checked and zlib.crc32(view[4:]) != crc:
        raise Corrupt(where=where, reason="its checksum does not match")
    if not operations:
        raise Corrupt(where=where, reason="it has no operations")
    return Entry(table, operations, transaction, view[_HEADER.size :])


def logged_schema(table: TableDef) -> pa.Schema:
    return table.schema.append(pa.field(WEIGHT, pa.int8()))


def decode_rows(entry: Entry, table: TableDef) -> pa.RecordBatch:
    where = f"log entry of transaction {entry.transaction} for table {table.name!r}"
    return batches.read(entry.batch, logged_schema(table), where)


def build_delta(table: TableDef, before: pa.RecordBatch, after: pa.RecordBatch) -> pa.RecordBatch:
    """The delta of a transaction: what was there, taken away; what is there, added."""
    weights = pa.concat_arrays(
        [
            pa.repeat(pa.scalar(-1, pa.int8()), before.num_rows),
            pa.repeat(pa.scalar(1, pa.int8()), after.num_rows),
        ]
    )
    columns = [pa.concat_arrays([b, a]) for b, a in zip(before.columns, after.columns, strict=True)]
    return pa.RecordBatch.from_arrays([*columns, weights], schema=logged_schema(table))


def rows_before(entries: Sequence[pa.RecordBatch], table: TableDef) -> dict[bytes, bytes | None]:
    """For each key that the entries (in log order) touch: its row before the first of them, None if absent.

    An entry has what it takes away before what it adds, so a key that comes first with a row that is added was absent.
    """
    result: dict[bytes, bytes | None] = {}
    if entries:
        batch = pa.concat_batches(entries)
        rows = pa.RecordBatch.from_arrays(batch.columns[:-1], schema=table.schema)
        keys = table.keys.encode(table.key_columns(rows)).to_pylist()
        old = pc.less(batch.column(WEIGHT), 0).to_pylist()
        for key, row, gone in zip(keys, table.rows.encode(rows).to_pylist(), old, strict=True):
            result.setdefault(key, row if gone else None)
    return result


def encode_note(written: float, operations: int, ends: Sequence[int]) -> bytes:
    """What the store notes of a transaction: when, how many operations in all so far, where each log ends."""
    return _NOTE.pack(max(0, int(written * 1e6)), operations) + struct.pack(f"<{len(ends)}Q", *ends)


def decode_note(value: bytes) -> tuple[float, int, tuple[int, ...]]:
    if len(value) < _NOTE.size or len(value) % 8:
        raise Corrupt(where="the note of a transaction", reason=f"{len(value)} bytes cannot be one")
    written, operations = _NOTE.unpack_from(value)
    ends = struct.unpack_from(f"<{(len(value) - _NOTE.size) // 8}Q", value, _NOTE.size)
    return written / 1e6, operations, ends
