"""A scan over many ranges of rows at once: HBase's `MultiRowRangeFilter`, encoded as protobuf.

The region server seeks from range to range, so a thousand short ranges take one call instead of a thousand.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

_NAME = b"org.apache.hadoop.hbase.filter.MultiRowRangeFilter"


class RowRange(NamedTuple):
    """The rows with low <= row < high. An empty `high` is the end of the table."""

    low: bytes
    high: bytes


def ranges_filter(ranges: Sequence[RowRange]) -> bytes:
    """The filter that lets the rows of these ranges pass."""
    encoded = b"".join(_field(1, _field(1, r.low) + b"\x10\x01" + _field(3, r.high) + b"\x20\x00") for r in ranges)
    return _field(1, _NAME) + _field(2, encoded)


def _field(number: int, content: bytes) -> bytes:
    """A field of type bytes: its number and wire type, its length, its content."""
    return bytes([number << 3 | 2]) + _varint(len(content)) + content


def _varint(number: int) -> bytes:
    encoded = bytearray()
    while number > 0x7F:
        encoded.append(number & 0x7F | 0x80)
        number >>= 7
    encoded.append(number)
    return bytes(encoded)
