"""Chunks of the raw log."""

from __future__ import annotations

import struct
import zlib
from contextlib import suppress
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tailrace.errors import Corrupt
from tailrace.store.hbase.raw_log import PUT, RawCells, decode_chunk, encode_chunk, scanned_cells, without_duplicates

CELLS = st.tuples(
    st.integers(0, 2**63 - 1),
    st.integers(0, 2**63 - 1),
    st.sampled_from([4, 8, 10, 12, 14, 255]),
    *[st.binary(max_size=5)] * 4,
)


def raw(cells: list[tuple[Any, ...]], table: str = "ns:t") -> RawCells:
    numbers = [np.array([c[i] for c in cells], kind) for i, kind in enumerate((np.int64, np.int64, np.uint8))]
    return RawCells(table, *numbers, *(pa.array([c[i] for c in cells], pa.large_binary()) for i in range(3, 7)))


def plain(cells: RawCells) -> list[tuple[Any, ...]]:
    numbers = (cells.sequences.tolist(), cells.timestamps.tolist(), cells.kinds.tolist())
    texts = (part.to_pylist() for part in (cells.rows, cells.families, cells.qualifiers, cells.values))
    return list(zip(*numbers, *texts, strict=True))


@settings(deadline=None)
@given(st.lists(CELLS, max_size=8), st.sampled_from(["t", "ns:tä"]))
def test_chunks_come_back(cells: list[tuple[Any, ...]], table: str) -> None:
    decoded = decode_chunk(encode_chunk(raw(cells, table)), "a chunk")
    assert (decoded.table, plain(decoded)) == (table, cells)


def test_the_bytes_of_a_chunk() -> None:
    """As the endpoint writes it: the format is shared with a program in another language."""
    body = b"TRW1" + struct.pack("<IH", 2, 3) + b"a:t" + struct.pack("<qqqq", 7, 8, 100, 200) + bytes([4, 12])
    body += struct.pack("<IIIIIIII", 1, 2, 1, 1, 1, 1, 2, 0) + b"r" + b"rr" + b"f" + b"f" + b"q" + b"q" + b"vv"
    cells = decode_chunk(body + struct.pack("<I", zlib.crc32(body)), "a chunk")
    assert cells.table == "a:t"
    assert plain(cells) == [(7, 100, 4, b"r", b"f", b"q", b"vv"), (8, 200, 12, b"rr", b"f", b"q", b"")]


@settings(deadline=None)
@given(st.lists(CELLS, max_size=3), st.data())
def test_damaged_chunks_are_recognised(cells: list[tuple[Any, ...]], data: st.DataObject) -> None:
    chunk = bytearray(encode_chunk(raw(cells)))
    if data.draw(st.booleans()):
        chunk[data.draw(st.integers(0, len(chunk) - 1))] ^= 1 << data.draw(st.integers(0, 7))
    else:  # a wrong number under a right checksum
        at = data.draw(st.integers(4, len(chunk) - 5))
        chunk[at] ^= 1 << data.draw(st.integers(0, 7))
        chunk[-4:] = struct.pack("<I", zlib.crc32(bytes(chunk[:-4])))
        with suppress(Corrupt):
            assert len(decode_chunk(bytes(chunk), "a chunk")) == len(cells)
        return
    with pytest.raises(Corrupt, match="a chunk"):
        decode_chunk(bytes(chunk), "a chunk")


@settings(deadline=None)
@given(st.lists(st.integers(1, 3), max_size=12), st.data())
def test_chunks_that_were_cut_anew(edits: list[int], data: st.DataObject) -> None:
    """Each chunk has whole edits in order; chunks may overlap in any way. Every edit is read once, in order."""
    cells = [(i + 1, i, PUT, b"r", b"f", b"q%d" % part, b"") for i, size in enumerate(edits) for part in range(size)]
    cuts = data.draw(st.lists(st.tuples(st.integers(1, 12), st.integers(1, 12)), max_size=5))
    spans = [(1, len(edits)), *[(min(cut), max(cut)) for cut in cuts]]
    chunks = [raw([c for c in cells if low <= c[0] <= high]) for low, high in spans]
    chunks.sort(key=lambda chunk: int(chunk.sequences[-1]) if len(chunk) else 0)
    after, upto = data.draw(st.integers(0, 6)), data.draw(st.integers(0, 14))
    read = [cell for part in without_duplicates(chunks, after, upto) for cell in plain(part)]
    assert read == [c for c in cells if after < c[0] <= upto]


def test_cells_of_a_scan() -> None:
    cells = scanned_cells("t", [(b"r", {b"f:a": (b"1", 5), b"f::": (b"2", 6)}), (b"s", {b"g:": (b"", 7)})])
    assert plain(cells) == [
        (0, 5, PUT, b"r", b"f", b"a", b"1"),
        (0, 6, PUT, b"r", b"f", b":", b"2"),
        (0, 7, PUT, b"s", b"g", b"", b""),
    ]
