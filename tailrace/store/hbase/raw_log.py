"""The raw log: the cells that the replication endpoint has read from the logs of HBase, chunk by chunk.

    ns:wal      row = encoded region name (32 bytes) + sequence id of the chunk's last edit (8 bytes, big-endian)
    ns:marks    row = 2^63 - 1 - region id (8 bytes, big-endian) + encoded region name;
                timestamp of the cell = sequence id of the last edit that was shipped: the *mark* of the region

Chunk, all numbers little-endian:

    TRW1 | number of cells (u32) | length of the table's name (u16) | name | sequence ids (i64 each) | timestamps (i64)
    | types (u8) | lengths of rows (u32), of families, of qualifiers, of values | rows | families | qualifiers | values
    | crc32 of everything before

After a crash the endpoint cuts chunks anew: they overlap, and readers drop the sequence ids that they have already. The
marks are read in one scan. Newer regions come first in it, and the endpoint ships a daughter only after its parents.
So marks never cover a later change of a key without the earlier ones.

Cells that were read by a scan of a table are in the raw log, too, under the name of a region that does not exist. They
have sequence id 0: of two cells with the same timestamp, the one from a log of HBase is the later one.

A *late chunk* comes when its region's mark has passed it. Mostly it is one that was shipped twice. It is a new one if
HBase broke the order: a bug of HBase, or a peer that is not serial. Late cells have sequence id -1.
"""

from __future__ import annotations

import struct
import zlib
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, NamedTuple

import msgspec
import numpy as np
import pyarrow as pa

from tailrace.codec import arrays
from tailrace.codec.arrays import LARGE_BINARY, Vector
from tailrace.errors import Corrupt

if TYPE_CHECKING:
    from tailrace.store.hbase.client import HbaseTable
from tailrace.store.hbase.long_values import PIECE

PUT, DELETE, DELETE_FAMILY_VERSION, DELETE_COLUMN, DELETE_FAMILY, BULK_LOAD = 4, 8, 10, 12, 14, 255
"""Types of cells: the codes of HBase, and one for a bulk load, whose cells are not in the log."""

BARRIER = b"\0tailrace:"
"""The beginning of the qualifier of a barrier: a deletion that changes nothing."""

LATE = -1  # the sequence id of late cells
SCAN = "scan"  # the beginning of the name of a region that does not exist: it has the rows of a scan
CHUNK = b"c"  # the column of a chunk; a long chunk continues in the columns c001, c002, ...
MARK = b"s"  # the column of a mark
_MAGIC = b"TRW1"
_HEAD = struct.Struct("<4sIH")
_CRC = struct.Struct("<I")
_SEQUENCE = struct.Struct(">Q")
_MARK = struct.Struct(">Q")
_NAME = 32  # bytes of an encoded region name
_LARGEST = 2**63 - 1


@dataclass(frozen=True)
class RawCells:
    """Cells of one table, in the order in which they were logged."""

    table: str
    sequences: Vector
    timestamps: Vector
    kinds: Vector
    rows: pa.LargeBinaryArray
    families: pa.LargeBinaryArray
    qualifiers: pa.LargeBinaryArray
    values: pa.LargeBinaryArray

    def __len__(self) -> int:
        return len(self.kinds)

    def take(self, at: Vector) -> RawCells:
        """The cells at these indices."""
        texts = (arrays.take_cells(t, at) for t in (self.rows, self.families, self.qualifiers, self.values))
        return RawCells(self.table, self.sequences[at], self.timestamps[at], self.kinds[at], *texts)


def concat(parts: Sequence[RawCells]) -> RawCells:
    """All cells of parts of one table."""
    if len(parts) == 1:
        return parts[0]
    return RawCells(
        parts[0].table,
        np.concatenate([p.sequences for p in parts]),
        np.concatenate([p.timestamps for p in parts]),
        np.concatenate([p.kinds for p in parts]),
        *(pa.concat_arrays([getattr(p, name) for p in parts]) for name in ("rows", "families", "qualifiers", "values")),
    )


def encode_chunk(cells: RawCells) -> bytes:
    name = cells.table.encode()
    texts = (cells.rows, cells.families, cells.qualifiers, cells.values)
    body = [_HEAD.pack(_MAGIC, len(cells), len(name)), name]
    body += [cells.sequences.astype("<i8").tobytes(), cells.timestamps.astype("<i8").tobytes()]
    body += [cells.kinds.astype("u1").tobytes()]
    body += [np.diff(arrays.offsets(text)).astype("<u4").tobytes() for text in texts]
    for text in texts:
        edges = arrays.offsets(text)
        body.append(arrays.content(text)[int(edges[0]) : int(edges[-1])].to_pybytes())
    whole = b"".join(body)
    return whole + _CRC.pack(zlib.crc32(whole))


def decode_chunk(value: bytes, where: str) -> RawCells:
    """Raises `Corrupt` if the bytes are no chunk."""
    if len(value) < _HEAD.size + _CRC.size or value[:4] != _MAGIC:
        raise Corrupt(where=where, reason="it is no chunk of the raw log")
    if zlib.crc32(memoryview(value)[: -_CRC.size]) != _CRC.unpack_from(value, len(value) - _CRC.size)[0]:
        raise Corrupt(where=where, reason="checksum does not match")
    _, count, name_size = _HEAD.unpack_from(value)
    at = _HEAD.size + name_size
    lengths_at = at + 17 * count
    texts_at = lengths_at + 16 * count
    end = len(value) - _CRC.size
    if texts_at > end:
        raise Corrupt(where=where, reason=f"it is too short for {count} cells")
    lengths = np.frombuffer(value, "<u4", 4 * count, lengths_at).reshape(4, count).astype(np.int64)
    if texts_at + int(lengths.sum()) != end:
        raise Corrupt(where=where, reason="the lengths of its cells do not fit")
    texts, start, data = [], texts_at, pa.py_buffer(value)
    for part in lengths:
        edges = np.zeros(count + 1, np.int64)
        np.cumsum(part, out=edges[1:])
        texts.append(arrays.cut_cells(data, edges + start))
        start += int(edges[-1])
    return RawCells(
        value[_HEAD.size : at].decode(errors="replace"),
        np.frombuffer(value, "<i8", count, at),
        np.frombuffer(value, "<i8", count, at + 8 * count),
        np.frombuffer(value, "u1", count, at + 16 * count),
        *texts,
    )


def scanned_cells(table: str, rows: Iterable[tuple[bytes, Mapping[bytes, tuple[bytes, int]]]]) -> RawCells:
    """Cells that were read from a table, by `family:qualifier`, as puts without a sequence id."""
    cells = [(row, *column.partition(b":"), *cell) for row, columns in rows for column, cell in columns.items()]
    texts = [pa.array([cell[i] for cell in cells], LARGE_BINARY) for i in (0, 1, 3, 4)]
    timestamps = np.array([cell[5] for cell in cells], np.int64)
    none = np.zeros(len(cells), np.int64)
    return RawCells(table, none, timestamps, np.full(len(cells), PUT, np.uint8), *texts)


class Mark(msgspec.Struct, frozen=True):
    """How far a region was shipped. `time` is when (milliseconds since 1970). `start` is None if HBase forgot it."""

    table: str
    region: str
    id: int
    start: str | None
    end: str | None
    time: int
    server: str = ""
    sequence: int = 0


def mark_key(region: str, region_id: int) -> bytes:
    return _MARK.pack(_LARGEST - region_id) + region.encode()


def chunk_key(region: str, sequence: int) -> bytes:
    return region.encode().ljust(_NAME, b" ") + _SEQUENCE.pack(sequence)


def split_chunk_key(row: bytes) -> tuple[str, int]:
    """The region and the sequence id in the key of a chunk."""
    return row[:_NAME].decode().rstrip(), int(_SEQUENCE.unpack(row[_NAME:])[0])


def read_marks(marks: HbaseTable) -> dict[str, Mark]:
    """The mark of each region, in one scan."""
    found = {}
    for page in marks.scan(b"", None):
        for row, cells in page:
            value, sequence = cells[MARK]
            try:
                mark = msgspec.json.decode(value, type=Mark)
            except msgspec.MsgspecError as error:
                raise Corrupt(where=f"mark {row!r}", reason=str(error)) from None
            found[mark.region] = msgspec.structs.replace(mark, sequence=sequence)
    return found


class Chunk(NamedTuple):
    """A chunk, and where it is: its row in `wal` and the timestamp of its cell."""

    row: bytes
    timestamp: int
    cells: RawCells
    size: int

    @property
    def sequence(self) -> int:
        """The sequence id of its last edit."""
        return split_chunk_key(self.row)[1]


def chunk_cells(chunk: bytes) -> dict[bytes, bytes]:
    """The cells of a chunk, which are to be put with one timestamp."""
    pieces = [chunk[i : i + PIECE] for i in range(0, len(chunk), PIECE)]
    return {CHUNK + (b"%03d" % i if i else b""): piece for i, piece in enumerate(pieces)}


def read_chunks(wal: HbaseTable, region: str, after: int, upto: int) -> Iterator[Chunk]:
    """The chunks of a region that end after a mark, up to another one."""
    for page in wal.scan(chunk_key(region, after + 1), chunk_key(region, upto + 1), size=16):
        for row, cells in page:
            yield _chunk(row, cells)


def _chunk(row: bytes, cells: Mapping[bytes, tuple[bytes, int]]) -> Chunk:
    # A chunk that was cut anew may have other pieces. Those of one chunk have one timestamp, and the longer chunk has
    # the greater one.
    timestamp = max(stamp for _, stamp in cells.values())
    value = b"".join(piece for _, (piece, stamp) in sorted(cells.items()) if stamp == timestamp)
    return Chunk(row, timestamp, decode_chunk(value, f"chunk {row!r} of the raw log"), len(value))


def find_late(wal: HbaseTable, marks: Mapping[str, int], most: int) -> list[bytes]:
    """The rows of some late chunks: those that are still in the raw log up to the resolved mark of their region.

    Leaves out chunks of scans. They are never late: the process that resolves has put them there itself.
    """
    found: list[bytes] = []
    for page in wal.scan(b"", None, keys_only=True):
        for row, _ in page:
            region, sequence = split_chunk_key(row)
            if sequence <= marks.get(region, 0) and not region.startswith(SCAN):
                found.append(row)
        if len(found) >= most:
            break
    return found[:most]


def find_left_scans(
    wal: HbaseTable, scans: Collection[str], marks: Mapping[str, int]
) -> Iterator[list[tuple[bytes, int]]]:
    """The chunks of other scans than these, and those up to the marks, page by page: rows and timestamps."""
    for page in wal.scan(SCAN.encode(), SCAN.encode() + b"\xff", keys_only=True):
        yield [
            (row, max(timestamp for _, timestamp in cells.values()))
            for row, cells in page
            for region, sequence in [split_chunk_key(row)]
            if region not in scans or sequence <= marks.get(region, 0)
        ]


def read_late(wal: HbaseTable, rows: Sequence[bytes]) -> list[Chunk]:
    """Late chunks, with the sequence id of late cells. Those that were deleted meanwhile are left out."""
    chunks = [_chunk(row, cells) for row, cells in zip(rows, wal.get_many(rows), strict=True) if cells]
    return [c._replace(cells=replace(c.cells, sequences=np.full(len(c.cells), LATE))) for c in chunks]


def cells_of(region: str, chunks: Sequence[Chunk], after: int, upto: int) -> list[RawCells]:
    """The cells of a region between two marks, each edit once, in order. Cells of a scan have no order."""
    cells = [chunk.cells for chunk in chunks]
    return cells if region.startswith(SCAN) else without_duplicates(cells, after, upto)


def without_duplicates(chunks: Sequence[RawCells], after: int, upto: int) -> list[RawCells]:
    """The cells of chunks of one region with after < sequence id <= upto, each edit once, in order."""
    chunks = [chunk for chunk in chunks if len(chunk)]
    if not chunks:
        return []
    cells = concat(chunks)
    of_chunk = np.repeat(np.arange(len(chunks)), [len(chunk) for chunk in chunks])
    _, first, place = np.unique(cells.sequences, return_index=True, return_inverse=True)
    wanted = of_chunk == of_chunk[first][place]  # an edit is never divided: take it from one chunk
    wanted &= (cells.sequences > after) & (cells.sequences <= upto)
    at = np.flatnonzero(wanted)
    return [cells.take(at[np.argsort(cells.sequences[at], kind="stable")])] if len(at) else []
