"""Reads and judges the raw log. For tests only: the oracle of the endpoint and of the store's own decoder."""

from __future__ import annotations

import json
import struct
import time
import uuid
import zlib
from collections import defaultdict
from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
from thrift_client import Client, hbase, tname

PUT, DELETE, DELETE_FAMILY_VERSION, DELETE_COLUMN, DELETE_FAMILY, BULK_LOAD = 4, 8, 10, 12, 14, 255
BARRIER = b"\x00tailrace:"


@dataclass(frozen=True)
class Cell:
    """A cell of the raw log. `position` is its place in its edit."""

    table: str
    region: str
    sequence_id: int
    position: int
    timestamp: int
    type: int
    row: bytes
    family: bytes
    qualifier: bytes
    value: bytes

    @property
    def column(self) -> str:
        return f"{self.family.decode()}:{self.qualifier.decode()}"


@dataclass(frozen=True)
class Chunk:
    """A row of the table `wal`."""

    region: str
    table: str
    cells: tuple[Cell, ...]
    size: int

    @property
    def first(self) -> int:
        return self.cells[0].sequence_id

    @property
    def last(self) -> int:
        return self.cells[-1].sequence_id


@dataclass(frozen=True)
class Mark:
    """A row of the table `marks`: everything of the region up to `sequence_id` is in the log."""

    region: str
    id: int
    table: str
    start: bytes | None  # None: nobody knew the region any more
    end: bytes | None
    sequence_id: int


def decode(key: bytes, value: bytes) -> Chunk:
    """Decodes a chunk and checks everything that its format promises."""
    assert len(key) == 40
    region, (last,) = key[:32].decode(), struct.unpack(">q", key[32:])
    assert value[:4] == b"TRW1"
    assert zlib.crc32(value[:-4]) == struct.unpack("<I", value[-4:])[0]
    count, length = struct.unpack_from("<IH", value, 4)
    at = 10 + length
    table = value[10:at].decode()
    arrays = []
    for kind in ("<i8", "<i8", "u1", "<u4", "<u4", "<u4", "<u4"):
        arrays.append(np.frombuffer(value, np.dtype(kind), count, at))
        at += arrays[-1].nbytes
    sequence_ids, timestamps, types, *lengths = arrays
    assert (np.diff(sequence_ids) >= 0).all()
    assert sequence_ids[-1] == last
    parts: list[list[bytes]] = []
    for array in lengths:
        ends = at + np.cumsum(array, dtype=np.int64)
        parts.append([value[end - size : end] for end, size in zip(ends.tolist(), array.tolist(), strict=True)])
        at = int(ends[-1])
    assert at == len(value) - 4
    starts = np.searchsorted(sequence_ids, sequence_ids, side="left")
    positions = (np.arange(count) - starts).tolist()
    columns = (sequence_ids.tolist(), positions, timestamps.tolist(), types.tolist(), *parts)
    cells = tuple(Cell(table, region, *fields) for fields in zip(*columns, strict=True))
    return Chunk(region, table, cells, len(value))


@dataclass(frozen=True)
class RawLog:
    """The tables `wal` and `marks` of a namespace."""

    client: Client
    namespace: str

    def chunks(self, region: str = "") -> Iterator[Chunk]:
        stop = region.encode() + b"\xff" if region else b""
        for row in self.client.scan(f"{self.namespace}:wal", region.encode(), stop, page=20):
            yield decode(row.row, b"".join(cell.value for cell in row.columnValues))

    def cells(self, table: str, region: str = "") -> list[Cell]:
        """Returns the cells of a table, each once, by sequence id. Asserts that repeated edits are the same."""
        found: dict[tuple[str, int, int], Cell] = {}
        for chunk in self.chunks(region):
            if chunk.table == table:
                for cell in chunk.cells:
                    assert found.setdefault((cell.region, cell.sequence_id, cell.position), cell) == cell
        cells = [cell for cell in found.values() if not cell.qualifier.startswith(BARRIER)]
        return sorted(cells, key=lambda cell: (cell.sequence_id, cell.region, cell.position))

    def marks(self) -> list[Mark]:
        """Reads a cut: the marks of all regions in one scan, newer regions first."""
        marks = []
        for row in self.client.getScannerResults(f"{self.namespace}:marks".encode(), hbase.TScan(), 10_000):
            (cell,) = row.columnValues
            told = json.loads(cell.value)
            start, end = (None if told[key] is None else bytes.fromhex(told[key]) for key in ("start", "end"))
            assert row.row == struct.pack(">q", 2**63 - 1 - told["id"]) + told["region"].encode()
            marks.append(Mark(told["region"], told["id"], told["table"], start, end, cell.timestamp))
        assert len({mark.region for mark in marks}) == len(marks), "a region has one mark"
        return marks

    def await_barriers(self, table: str, seconds: float = 120) -> None:
        """Writes a barrier into every region of the table, and waits until the log has them: all of before is there."""
        qualifier = BARRIER + uuid.uuid4().hex.encode()
        missing = set()
        for region in self.client.regions(table):
            row = region.start or b"\x00"
            family = self.client.getTableDescriptor(tname(table)).columns[0].name
            column = hbase.TColumn(family=family, qualifier=qualifier, timestamp=1)
            self.client.deleteSingle(table.encode(), hbase.TDelete(row=row, columns=[column], deleteType=0))
            missing.add(row)
        end = time.monotonic() + seconds
        while missing := missing - {c.row for chunk in self.chunks() for c in chunk.cells if c.qualifier == qualifier}:
            assert time.monotonic() < end, f"no barrier from {missing}; marks: {self.marks()}"
            time.sleep(0.1)


def timelines(cells: list[Cell]) -> dict[bytes, list[Cell]]:
    """Returns the changes of every row, in the order of the log."""
    found: dict[bytes, list[Cell]] = defaultdict(list)
    for cell in cells:
        found[cell.row].append(cell)
    return found


def broken_cuts(cells: list[Cell], cuts: list[list[Mark]]) -> list[tuple[int, bytes]]:
    """Returns cuts, with a row, that have a later change of the row without an earlier one."""
    numbers = {region: number for number, region in enumerate(sorted({cell.region for cell in cells}))}
    lines = [
        (row, np.array([numbers[cell.region] for cell in line]), np.array([cell.sequence_id for cell in line]))
        for row, line in timelines(cells).items()
    ]
    broken = []
    for place, cut in enumerate(cuts):
        covered = np.full(len(numbers), -1)
        for mark in cut:
            if mark.region in numbers:
                covered[numbers[mark.region]] = mark.sequence_id
        for row, regions, sequence_ids in lines:
            inside = sequence_ids <= covered[regions]
            if (inside[1:] & ~inside[:-1]).any():
                broken.append((place, row))
    return broken


def covered(cells: list[Cell], cut: list[Mark]) -> set[Cell]:
    """Returns the cells that a cut has."""
    reached = {mark.region: mark.sequence_id for mark in cut}
    return {cell for cell in cells if cell.sequence_id <= reached.get(cell.region, -1)}
