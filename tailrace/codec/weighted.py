"""Weighted entries of a state: eight bytes of weight (how many copies of the row exist), then the row."""

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
_LIMIT = 1 << 62  # weights stay below this, so that adding two of them cannot overflow
ONE = pa.scalar(_WEIGHT.pack(1), pa.large_binary())  # the weight prefix of a row with one copy


def weight_of(entry: bytes) -> int:
    weight: int = _WEIGHT.unpack_from(entry)[0] if len(entry) >= _WEIGHT.size else 0
    if not 0 < weight < _LIMIT:
        raise _damaged()
    return weight


def row_of(entry: bytes) -> bytes:
    return entry[_WEIGHT.size :]


def split(entries: Sequence[bytes]) -> tuple[npt.NDArray[np.int64], list[bytes]]:
    """The weights and the rows of entries."""
    prefixes = b"".join([e[: _WEIGHT.size] for e in entries])
    if len(prefixes) != len(entries) * _WEIGHT.size:
        raise _damaged()
    weights = np.frombuffer(prefixes, dtype="<i8")
    if ((weights <= 0) | (weights >= _LIMIT)).any():
        raise _damaged()
    return weights, [row_of(e) for e in entries]


def weights_of(entries: pa.LargeBinaryArray) -> npt.NDArray[np.int64]:
    """The weight of each entry, 0 for NULL."""
    edges, present = arrays.offsets(entries), entries.is_valid().to_numpy(zero_copy_only=False)
    starts = edges[:-1][present]
    if (np.diff(edges)[present] < WIDTH).any():
        raise _damaged()
    data = np.frombuffer(arrays.content(entries), np.uint8)
    weights = np.zeros(len(entries), dtype=np.int64)
    weights[present] = data[starts[:, None] + np.arange(WIDTH)].view("<i8").ravel()
    if ((weights[present] <= 0) | (weights[present] >= _LIMIT)).any():
        raise _damaged()
    return weights


def add_weights(
    state: int, olds: pa.LargeBinaryArray, rows: pa.LargeBinaryArray, changes: npt.NDArray[np.int64]
) -> tuple[npt.NDArray[np.int64], pa.LargeBinaryArray]:
    """Adds changes to the weights of entries. Returns the old weights and the new entries, NULL for weight 0."""
    old_weights = weights_of(olds)
    weights = old_weights + changes
    if (weights < 0).any():
        raise Corrupt(where=f"state {state}", reason="a row was deleted more often than it was inserted")
    entries = arrays.join_cells([arrays.pack_records(weights.astype("<i8")), rows])
    return old_weights, pc.if_else(pa.array(weights > 0), entries, None) if (weights == 0).any() else entries


def _damaged() -> Corrupt:
    return Corrupt(where="an entry of a state", reason="missing or invalid weight prefix")
