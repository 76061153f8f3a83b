"""The resolved log: entries with the rows before and after, by node and offset, and a note of each transaction.

    ns:log   row = node (u16) | offset (u64): e, e1, e2, ... the entry (`store/log_entries.py`), in pieces; b: bad rows
             row = 0xffff | transaction (u64): n, its note; k, k1, k2, ... which images it wrote, in pieces

The timestamp of all cells is the transaction.
"""

from __future__ import annotations

import struct
import time
import zlib
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import msgspec

from tailrace.codec.schema import TableDef
from tailrace.errors import Corrupt, OffsetGap
from tailrace.store import log_entries
from tailrace.store.hbase.client import Cells, Deletion, HbaseTable
from tailrace.store.hbase.images import WrittenImages
from tailrace.store.hbase.long_values import join_value, split_value
from tailrace.store.hbase.resolving import NodeEntry, Notes
from tailrace.store.log_entries import Entry, decode_log_key, log_key

NOTES_NODE = 0xFFFF
KEPT = 1 << 20  # bytes of a node's last range that are kept in memory, at most
KEPT_SECONDS = 2.0  # the views of an epoch read it within this time; a namespace is not dropped and made again so soon
ENTRY, NOTES, NOTE, IMAGES = b"e", b"b", b"n", b"k"
_KEY = struct.Struct(">HQ")


@dataclass(frozen=True)
class ReadEntry:
    """An entry of a node's log, and the notes about bad rows."""

    entry: Entry
    notes: Notes | None


@dataclass(frozen=True)
class TransactionNote:
    """When a transaction was made, all operations so far, and the ends of the logs after it."""

    transaction: int
    written: float
    operations: int
    ends: tuple[int, ...]


class ResolvedLog:
    def __init__(self, table: HbaseTable) -> None:
        self._table = table
        self._last: dict[int, tuple[int, int, float, list[ReadEntry]]] = {}  # by node, the range that was read last

    # writing

    def append(self, table: TableDef, transaction: int, ends: list[int], entries: Sequence[NodeEntry]) -> None:
        """Appends entries of one table, and moves the ends of the logs."""
        rows = []
        for entry in entries:
            value = log_entries.encode(table, entry.operations, transaction, entry.batch)
            cells = split_value(ENTRY, value)
            if entry.notes is not None:
                cells[NOTES] = msgspec.json.encode(entry.notes)
            rows.append((log_key(entry.node, ends[entry.node]), cells))
            ends[entry.node] += entry.operations
        self._table.put_many(rows, timestamp=transaction)

    def write_note(
        self, transaction: int, written: float, ends: Sequence[int], images: WrittenImages | None = None
    ) -> None:
        """Writes the note of a transaction."""
        cells = {NOTE: log_entries.encode_note(written, sum(ends), ends)}
        if images is not None:
            cells |= split_value(IMAGES, zlib.compress(msgspec.msgpack.encode(images), 1))
        self._table.put_many([(_KEY.pack(NOTES_NODE, transaction), cells)], timestamp=transaction)

    def clear(self, ends: Sequence[int], transaction: int) -> None:
        """Deletes entries of transactions up to this one after the ends of the logs: those of a failed attempt."""
        for node, end in enumerate(ends):
            for page in self._table.scan(log_key(node, end), log_key(node + 1, 0)):
                self._table.delete_many([Deletion(row, transaction) for row, _ in page])

    # reading

    def read(self, node: int, start: int, end: int, *, checked: bool = True) -> Iterator[ReadEntry]:
        """All entries in [start, end) of a node's log. Verifies checksums if `checked`; raises `OffsetGap` at a gap.

        A small range is kept: the views of an epoch read the same one, each with its own columns.
        """
        last = self._last.get(node)
        if last is not None and last[:2] == (start, end) and time.monotonic() - last[2] < KEPT_SECONDS:
            yield from last[3]
            return
        kept, size = list[ReadEntry](), 0
        for read in self._read(node, start, end, checked=checked):
            yield read
            if (size := size + len(read.entry.batch)) <= KEPT:
                kept.append(read)
        if checked and size <= KEPT:
            self._last[node] = start, end, time.monotonic(), kept

    def _read(self, node: int, start: int, end: int, *, checked: bool) -> Iterator[ReadEntry]:
        expected = start
        for page in self._table.scan(log_key(node, start), log_key(node, end), size=16):
            for row, cells in page:
                _, offset = decode_log_key(row)
                if offset != expected:
                    raise OffsetGap(node=node, expected=expected, found=offset)
                entry = log_entries.decode(node, offset, join_value(ENTRY, cells), checked=checked)
                yield ReadEntry(entry, _notes(cells, node, offset))
                expected = offset + entry.operations
        if expected != end:
            raise OffsetGap(node=node, expected=end, found=expected)

    def notes_after(self, transaction: int) -> Iterator[TransactionNote]:
        """The notes of later transactions, in order."""
        for page in self._table.scan(_KEY.pack(NOTES_NODE, transaction + 1), None, size=100, qualifiers=[NOTE]):
            for row, cells in page:
                written, operations, ends = log_entries.decode_note(cells[NOTE][0])
                yield TransactionNote(_KEY.unpack(row)[1], written, operations, ends)

    def images_upto(self, transaction: int) -> Iterator[tuple[int, WrittenImages]]:
        """Which images each transaction up to this one wrote whose note is not trimmed, in order."""
        for page in self._table.scan(_KEY.pack(NOTES_NODE, 0), _KEY.pack(NOTES_NODE, transaction + 1), size=16):
            for row, cells in page:
                if IMAGES in cells:
                    content = zlib.decompress(join_value(IMAGES, cells))
                    yield _KEY.unpack(row)[1], msgspec.msgpack.decode(content, type=WrittenImages)

    def stored_entries(self, node: int, end: int) -> Iterator[tuple[int, Cells]]:
        """The cells of all entries of a node's log up to an offset, undecoded."""
        for page in self._table.scan(log_key(node, 0), log_key(node, end), size=16):
            for row, cells in page:
                yield decode_log_key(row)[1], cells

    def stored_notes(self, upto: int) -> Iterator[tuple[int, Cells]]:
        """The cells of the notes of transactions up to this one, undecoded."""
        for page in self._table.scan(_KEY.pack(NOTES_NODE, 0), _KEY.pack(NOTES_NODE, upto + 1), size=100):
            for row, cells in page:
                yield int(_KEY.unpack(row)[1]), cells

    def trim(self, node: int, end: int) -> None:
        """Deletes the entries of a node's log before an offset."""
        self._delete(log_key(node, 0), log_key(node, end))

    def trim_notes(self, transaction: int) -> None:
        """Deletes the notes of earlier transactions."""
        self._delete(_KEY.pack(NOTES_NODE, 0), _KEY.pack(NOTES_NODE, transaction))

    def _delete(self, low: bytes, high: bytes) -> None:
        for page in self._table.scan(low, high):
            newest = [(row, max(timestamp for _, timestamp in cells.values())) for row, cells in page]
            self._table.delete_many([Deletion(row, timestamp) for row, timestamp in newest])


def _notes(cells: Cells, node: int, offset: int) -> Notes | None:
    try:
        return msgspec.json.decode(cells[NOTES][0], type=Notes) if NOTES in cells else None
    except msgspec.MsgspecError as error:
        raise Corrupt(where=f"log entry {offset} of node {node}", reason=str(error)) from None
