"""Entries that are counted: eight bytes of weight, then the row."""

from __future__ import annotations

import struct
from collections.abc import Sequence

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from tailrace.errors import Corrupt

_WEIGHT = struct.Struct("<q")
WIDTH = _WEIGHT.size
ONE = pa.scalar(_WEIGHT.pack(1), pa.large_binary())  # the weight in front of a row that is there once


def weight_of(entry: bytes) -> int:
    weight: int = _WEIGHT.unpack_from(entry)[0]
    return weight


def row_of(entry: bytes) -> bytes:
    return entry[_WEIGHT.size :]


def split(entries: Sequence[bytes]) -> tuple[npt.NDArray[np.int64], list[bytes]]:
    """The weights and the rows of entries."""
    weights = np.frombuffer(b"".join([e[: _WEIGHT.size] for e in entries]), dtype="<i8")
    return weights, [row_of(e) for e in entries]


def changed(state: int, old: bytes | None, row: bytes, change: int) -> tuple[int, bytes | None]:
    """The weight that an entry had, and what it becomes: None when nothing of it is left."""
    was: int = _WEIGHT.unpack_from(old)[0] if old else 0
    now = was + change
    if now < 0:
        raise Corrupt(where=f"state {state}", reason="a row was taken away more often than added")
    return was, _WEIGHT.pack(now) + row if now else None
