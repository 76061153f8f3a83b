"""Binary keys in order.

Most keys are short, of one length, and alike but for a few bits: the marks of columns, high bits of numbers. Where
the bits in which any of them differ fit a word, keys are sorted as numbers, five times faster than as bytes; with room
for a key's place among them beside those bits, twice as fast again.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from tailrace.codec import arrays
from tailrace.codec.arrays import Vector

_WORD = 64  # bits
_BLOCK = 64  # keys that are looked at side by side


class Ordered(NamedTuple):
    """Indices of keys in order, and for each of them whether its key is another than the one before."""

    indices: Vector
    fresh: Vector

    @property
    def lasts(self) -> Vector:
        """The indices of distinct keys, of equal ones that of the last."""
        return self.indices[np.append(self.fresh[1:], True)] if len(self.indices) else self.indices


def order(keys: pa.LargeBinaryArray) -> Ordered:
    """Equal keys stay in the order in which they came."""
    found = pack_keys(keys)
    if found is None:
        indices = pc.sort_indices(keys).to_numpy().astype(np.int64)
        return Ordered(indices, _differing_cells(keys.take(pa.array(indices))))
    words, bits = found
    if (words[1:] >= words[:-1]).all():
        return Ordered(np.arange(len(words)), mark_run_starts(words))
    room = (len(words) - 1).bit_length()
    if bits + room <= _WORD:
        both = words << np.uint64(room) | np.arange(len(words), dtype=np.uint64)
        both.sort()
        indices, words = (both & np.uint64((1 << room) - 1)).astype(np.int64), both >> np.uint64(room)
    else:
        indices = np.argsort(words, kind="stable")
        words = words[indices]
    return Ordered(indices, mark_run_starts(words))


def mark_run_starts(values: Vector) -> Vector:
    """For each value whether it is the first or another than the one before."""
    return _first_and(values[1:] != values[:-1])[: len(values)]


def _differing_cells(cells: pa.LargeBinaryArray) -> Vector:
    before = cells.slice(0, max(0, len(cells) - 1))
    return _first_and(pc.not_equal(cells.slice(1), before).to_numpy(zero_copy_only=False))[: len(cells)]


def pack_keys(keys: pa.LargeBinaryArray) -> tuple[Vector, int] | None:
    """A number for each key, equal and ordered as the keys are, and its bits; None if they differ too much for that."""
    width = arrays.width(keys)
    if width is None:
        return None
    cells = arrays.records(keys, width)
    sizes = [int(byte).bit_length() for byte in _varying(cells)]
    if sum(sizes) > _WORD:
        return None
    words = np.zeros(len(keys), np.uint64)
    for place, size in enumerate(sizes):
        if size:
            words <<= np.uint64(size)
            words |= cells[:, place] & np.uint8((1 << size) - 1)
    return words, sum(sizes)


def _varying(cells: Vector) -> Vector:
    """For each byte of a key those bits in which not all keys agree."""
    count, width = cells.shape
    even = count - count % _BLOCK
    wide = cells[:even].reshape(even // _BLOCK, _BLOCK * width)  # long rows: NumPy is slow on many short ones
    ones, alike = np.bitwise_or.reduce(cells[even:], axis=0), np.bitwise_and.reduce(cells[even:], axis=0)
    ones |= np.bitwise_or.reduce(np.bitwise_or.reduce(wide, axis=0).reshape(_BLOCK, width), axis=0)
    alike &= np.bitwise_and.reduce(np.bitwise_and.reduce(wide, axis=0).reshape(_BLOCK, width), axis=0)
    varying: Vector = ones ^ alike
    return varying


def _first_and(differs: Vector) -> Vector:
    fresh = np.ones(len(differs) + 1, bool)
    fresh[1:] = differs
    return fresh
