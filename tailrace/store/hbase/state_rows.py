"""The rows of states in the table `state`: shard, state, key -> value, or the note that the key was deleted."""

from __future__ import annotations

import struct

from tailrace.codec.keys import after_prefix
from tailrace.errors import Corrupt
from tailrace.store.hbase.client import Cells
from tailrace.store.hbase.row_ranges import RowRange

COLUMN = b"v"
_PREFIX = struct.Struct(">HI")
_DELETED, _VALUE = b"\x00", b"\x01"


def state_prefix(shard: int, state: int) -> bytes:
    """The prefix of the rows of a state."""
    return _PREFIX.pack(shard, state)


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
    if stored != _DELETED:
        raise Corrupt(where="a value of a state", reason=f"it begins with {stored[:1]!r}")
    return None
