"""The rows of states in the table `state`: shard, state, key -> value, or the note that the key was deleted."""

from __future__ import annotations

import struct

from tailrace.codec.keys import after_prefix
from tailrace.store.hbase.client import Cells
from tailrace.store.hbase.row_ranges import RowRange

COLUMN = b"v"
_PREFIX = struct.Struct(">HI")
_DELETED, _VALUE = b"\x00", b"\x01"
_DAMAGED = b""  # what a damaged cell has: no row can be decoded from it, and a repair finds that it differs


def state_prefix(shard: int, state: int) -> bytes:
    """The prefix of the rows of a state."""
    return _PREFIX.pack(shard, state)


def state_of(row: bytes) -> int:
    """The state of a row."""
    return int(_PREFIX.unpack_from(row)[1])


def state_range(prefix: bytes, low: bytes, high: bytes | None) -> RowRange:
    """The rows of a state with low <= key < high (None: to the end of the state)."""
    return RowRange(prefix + low, (prefix + high) if high is not None else after_prefix(prefix) or b"")


def encode_value(value: bytes | None) -> bytes:
    return _DELETED if value is None else _VALUE + value


def decode_cell(cells: Cells) -> bytes | None:
    """The value in a row; None if the key does not exist."""
    if COLUMN not in cells:
        return None
    stored = cells[COLUMN][0]
    if stored[:1] == _VALUE:
        return stored[1:]
    return None if stored == _DELETED else _DAMAGED
