"""Values in cells of HBase, which refuses cells of more than 10 MiB (`hbase.client.keyvalue.maxsize`).

A long value is divided into several cells of one row: name, name1, name2, ... All of them have one timestamp, so that
pieces of an older, longer value do not count.
"""

from __future__ import annotations

from tailrace.store.hbase.client import Cells

PIECE = 4 << 20  # bytes of one cell
LARGEST = (10 << 20) - (64 << 10)  # bytes of a value that is not divided; the rest is for keys


def split_value(name: bytes, value: bytes) -> dict[bytes, bytes]:
    """A value as cells; an empty one as a single cell."""
    if len(value) <= PIECE:
        return {name: value}
    pieces = [value[i : i + PIECE] for i in range(0, len(value), PIECE)]
    return {name + (str(i).encode() if i else b""): piece for i, piece in enumerate(pieces)}


def join_value(name: bytes, cells: Cells) -> bytes:
    """The inverse of `split_value`; nothing if there is no such value."""
    first, timestamp = cells.get(name, (b"", 0))
    pieces = [first]
    while (further := cells.get(name + str(len(pieces)).encode())) is not None and further[1] == timestamp:
        pieces.append(further[0])
    return first if len(pieces) == 1 else b"".join(pieces)
