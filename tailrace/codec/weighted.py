"""Entries that are counted: eight bytes of weight, then the row."""

from __future__ import annotations

import struct
from collections.abc import Sequence

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from tailrace.codec import arrays
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


def weights_of(entries: pa.LargeBinaryArray) -> npt.NDArray[np.int64]:
    """The weight of each entry, 0 where there is none."""
    edges, there = arrays.offsets(entries), entries.is_valid().to_numpy(zero_copy_only=False)
    starts = edges[:-1][there]
    if (np.diff(edges)[there] < WIDTH).any():
        raise _damaged()
    data = np.frombuffer(arrays.content(entries), np.uint8)
    weights = np.zeros(len(entries), dtype=np.int64)
    weights[there] = data[starts[:, None] + np.arange(WIDTH)].view("<i8").ravel()
    if ((weights[there] <= 0) | (weights[there] >= _BEYOND)).any():
        raise _damaged()
    return weights


def add_weights(
    state: int, olds: pa.LargeBinaryArray, rows: pa.LargeBinaryArray, changes: npt.NDArray[np.int64]
) -> tuple[npt.NDArray[np.int64], pa.LargeBinaryArray]:
    """The weights that entries had, and what the entries become: NULL when nothing is left of one."""
    was = weights_of(olds)
    now = was + changes
    if (now < 0).any():
        raise Corrupt(where=f"state {state}", reason="a row was taken away more often than added")
    entries = arrays.join_cells([arrays.pack_records(now.astype("<i8")), rows])
    return was, pc.if_else(pa.array(now > 0), entries, None) if (now == 0).any() else entries


def _damaged() -> Corrupt:
    return Corrupt(where="an entry of a state", reason="it does not begin with how often it is there")
