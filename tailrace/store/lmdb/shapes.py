"""Shapes: values of states are stored without the bytes that are zero in all of them.

    stored value = number of its shape (1 byte) | kept bytes | the bytes after the shape's width, unchanged
    shapes       state, number → width (4 bytes) | one bit per byte up to the width: whether it is kept

The numbers, weights and lengths in a value have a fixed width, and most of their bytes are always zero: a BIGINT below
65,536 has six. A shape names the bytes that are kept; all others up to its width are zero. A state's newest shape is
used for every write that it fits. If a write has another byte that is not zero, a wider shape is added. Values of one
write get one shape, so values of one length stay that way and are packed as a matrix. Shape 0 keeps every byte.

A damaged value is read as an empty one, which every codec of values refuses. So a reader gets an error that says what
is damaged, and an audit can name it and go on. Stores of format 2 have no shapes: their values are stored as they are.
"""

from __future__ import annotations

import struct
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property, lru_cache
from itertools import pairwise
from typing import Any

import numpy as np
import pyarrow as pa

from tailrace.codec import arrays
from tailrace.codec.arrays import Vector

WIDEST = 128  # a shape covers at most that many bytes; later ones are mostly text
MOST = 255  # shapes of a state, whose number is one byte
FEW = 64  # values that are unpacked one by one, because NumPy's overhead would be larger
_KEY = struct.Struct(">IB")
_WIDTH = struct.Struct("<I")


@dataclass(frozen=True)
class Shape:
    """Which of the first `width` bytes of a value are stored: `kept`, one truth value per byte."""

    number: int
    width: int
    kept: tuple[bool, ...]

    @cached_property
    def _runs(self) -> tuple[tuple[int, int, int], ...]:
        """The runs of kept bytes: start and end in the value, and start in the stored value."""
        edges = [0, *(i for i in range(1, self.width) if self.kept[i] != self.kept[i - 1]), self.width]
        runs, at = [], 1
        for start, end in pairwise(edges):
            if start < end and self.kept[start]:
                runs.append((start, end, at))
                at += end - start
        return tuple(runs)

    @cached_property
    def _zero(self) -> Vector:
        return ~np.array(self.kept, bool)

    @cached_property
    def head(self) -> int:
        """The length of the stored form of the first `width` bytes, with the number of the shape."""
        return 1 + sum(self.kept)

    @cached_property
    def _steps(self) -> tuple[tuple[bytes, slice], ...]:
        """How one value is unpacked: zeros, then a slice of the stored value, and so on."""
        steps, end = [], 0
        for start, stop, at in self._runs:
            steps.append((bytes(start - end), slice(at, at + stop - start)))
            end = stop
        return *steps, (bytes(self.width - end), slice(self.head, None))

    def fits(self, live: Vector) -> bool:
        """Whether values can have this shape; `live` says which of their first bytes are not zero."""
        return self.width <= len(live) and not (live[: self.width] & self._zero).any()

    def pack(self, heads: Vector, tails: pa.LargeBinaryArray | None) -> pa.LargeBinaryArray:
        """Stored values, from the first `width` bytes of each value (a matrix) and the other bytes."""
        stored = np.empty((len(heads), self.head), np.uint8)
        stored[:, 0] = self.number
        for start, end, at in self._runs:
            stored[:, at : at + end - start] = heads[:, start:end]
        cells = _matrix_cells(stored)
        return cells if tails is None else arrays.join_cells([cells, tails])

    def unpack_heads(self, stored: Vector) -> Vector:
        """The inverse for heads: the first `width` bytes of each value."""
        heads = np.zeros((len(stored), self.width), np.uint8)
        for start, end, at in self._runs:
            heads[:, start:end] = stored[:, at : at + end - start]
        return heads

    def unpack_one(self, stored: bytes) -> bytes:
        parts: list[bytes] = []
        for zeros, part in self._steps:
            parts += (zeros, stored[part])
        return b"".join(parts)

    def encode(self) -> bytes:
        return _WIDTH.pack(self.width) + np.packbits(np.array(self.kept, bool)).tobytes()


WHOLE = Shape(0, 0, ())
DAMAGED = bytes([0])  # an empty value, packed


@lru_cache(maxsize=65_536)
def _decode_shape(number: int, value: bytes) -> Shape | None:
    """The shape that a value encodes; None if it is unreadable."""
    width = _WIDTH.unpack_from(value)[0] if len(value) >= _WIDTH.size else 0
    bits = np.unpackbits(np.frombuffer(value, np.uint8)[_WIDTH.size :])
    return Shape(number, width, tuple(bits[:width].astype(bool).tolist())) if 0 < width <= len(bits) else None


class Shapes:
    """The shapes of one state, read in a transaction."""

    def __init__(self, txn: Any, db: Any, state: int) -> None:
        self._txn, self._db, self._state = txn, db, state
        self._known: dict[int, Shape | None] = {0: WHOLE}
        with txn.cursor(db) as cursor:
            more = cursor.set_range(_KEY.pack(state, 0))
            while more and (key := bytes(cursor.key()))[:4] == _KEY.pack(state, 0)[:4]:
                self._known[key[-1]] = _decode_shape(key[-1], bytes(cursor.value()))
                more = cursor.next()

    def pack(self, values: pa.LargeBinaryArray) -> pa.LargeBinaryArray:
        """Stored forms of values, none of them NULL. Adds a shape to the state if its newest one does not fit."""
        width = arrays.cell_width(values)
        if width is not None and width <= WIDEST:
            heads = arrays.cell_matrix(values, width)
            shape = self._choose(heads)
            tails = arrays.drop_prefix(values, shape.width) if shape.width < width else None
            return shape.pack(heads, tails)
        edges = arrays.offsets(values)
        heads = _heads(values, edges, min(int(np.diff(edges).min()), WIDEST))
        shape = self._choose(heads)
        return shape.pack(heads, arrays.drop_prefix(values, shape.width))

    def _choose(self, heads: Vector) -> Shape:
        live = np.bitwise_or.reduce(heads, axis=0) != 0
        last = max(self._known)
        newest = self._known[last]
        if last and newest is not None:
            if newest.fits(live):
                return newest
            live = live[: newest.width]
            live = live | np.array(newest.kept[: len(live)], bool)
        if last == MOST or not len(live):
            return WHOLE
        shape = Shape(last + 1, len(live), tuple(live.tolist()))
        self._txn.put(_KEY.pack(self._state, shape.number), shape.encode(), db=self._db)
        self._known[shape.number] = shape
        return shape

    def _unpack_one(self, stored: bytes) -> bytes:
        shape = self._known.get(stored[0]) if stored else None
        return b"" if shape is None or len(stored) < shape.head else shape.unpack_one(stored)

    def unpack(self, stored: Sequence[bytes]) -> list[bytes]:
        """The values of stored forms."""
        if len(stored) <= FEW:
            return [self._unpack_one(value) for value in stored]
        if not all(stored):
            stored = [value or DAMAGED for value in stored]
        cells = pa.array(stored, pa.large_binary())
        numbers = np.frombuffer(arrays.content(cells), np.uint8)[arrays.offsets(cells)[:-1]]
        if (numbers == numbers[0]).all():
            return self._unpack_alike(cells, int(numbers[0]))
        values: list[bytes] = [b""] * len(stored)
        for number in np.unique(numbers).tolist():
            at = np.flatnonzero(numbers == number)
            for i, value in zip(at.tolist(), self._unpack_alike(arrays.take_cells(cells, at), number), strict=True):
                values[i] = value
        return values

    def _unpack_alike(self, cells: pa.LargeBinaryArray, number: int) -> list[bytes]:
        """The values of stored forms of one shape."""
        shape, edges = self._known.get(number), arrays.offsets(cells)
        lengths = np.diff(edges)
        if shape is None or lengths.min() < shape.head:
            return [self._unpack_one(value) for value in cells.to_pylist()]
        parts = [_matrix_cells(shape.unpack_heads(_heads(cells, edges, shape.head)))]
        if lengths.max() > shape.head:
            parts.append(arrays.drop_prefix(cells, shape.head))
        values: list[bytes] = arrays.join_cells(parts).to_pylist()
        return values


def _matrix_cells(matrix: Vector) -> pa.LargeBinaryArray:
    """The binary array whose cells are the rows of a byte matrix."""
    count, width = matrix.shape
    return arrays.cut_cells(matrix.reshape(-1), np.arange(count + 1) * width)


def _heads(cells: pa.LargeBinaryArray, edges: Vector, width: int) -> Vector:
    """The first `width` bytes of each cell, as a matrix. No cell is shorter."""
    data = np.frombuffer(arrays.content(cells), np.uint8)
    windows = np.lib.stride_tricks.as_strided(data, (max(len(data) - width + 1, 1), width), (1, 1), writeable=False)
    return windows[edges[:-1]]
