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
_BEYOND = 1 << 62  # no row is there so often; and there is room to add
ONE = pa.scalar(_WEIGHT.pack(1), pa.large_binary())  # the weight in front of a row that is there once


def weight_of(entry: bytes) -> int:
    weight: int = _WEIGHT.unpack_from(entry)[0] if len(entry) >= _WEIGHT.size else 0
    if not 0 < weight < _BEYOND:
        raise _damaged()
    return weight


def row_of(entry: bytes) -> bytes:
    return entry[_WEIGHT.size :]


def split(entries: Sequence[bytes]) -> tuple[npt.NDArray[np.int64], list[bytes]]:
    """The weights and the rows of entries."""
    joined = b"".join([e[: _WEIGHT.size] for e in entries])
    if len(joined) != len(entries) * _WEIGHT.size:
        raise _damaged()
    weights = np.frombuffer(joined, dtype="<i8")
    if ((weights <= 0) | (weights >= _BEYOND)).any():
        raise _damaged()
    return weights, [row_of(e) for e in entries]


def changed(state: int, old: bytes | None, row: bytes, change: int) -> tuple[int, bytes | None]:
    """The weight that an entry had, and what it becomes: None when nothing of it is left."""
    was = 0 if old is None else weight_of(old)
    now = was + change
    if now < 0:
        raise Corrupt(where=f"state {state}", reason="a row was taken away more often than added")
    return was, _WEIGHT.pack(now) + row if now else None


def _damaged() -> Corrupt:
    return Corrupt(where="an entry of a state", reason="it does not begin with how often it is there")
