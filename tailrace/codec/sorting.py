"""Sorts binary keys, as integers where possible.

Most keys are short, have one length and differ in few bits: column markers and the high bits of numbers are equal in
all keys. If the bits that differ fit a 64-bit word, keys are sorted as integers, five times faster than as bytes. If
the index of a key fits the word as well, sorting is twice as fast again.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from tailrace.codec import arrays
from tailrace.codec.arrays import Vector

_WORD = 64  # bits
_BLOCK = 64  # keys that NumPy reduces as one long row


class Ordered(NamedTuple):
    """The indices that sort the keys, and for each of them whether its key differs from the previous one."""

    indices: Vector
    fresh: Vector

    @property
    def lasts(self) -> Vector:
        """The index of each distinct key; of equal keys, the last one."""
        return self.indices[np.append(self.fresh[1:], True)] if len(self.indices) else self.indices


def order(keys: pa.LargeBinaryArray) -> Ordered:
    """Sorts the keys. The sort is stable."""
    packed = pack_keys(keys)
    if packed is None:
        indices = pc.sort_indices(keys).to_numpy().astype(np.int64)
        return Ordered(indices, _mark_cell_run_starts(keys.take(pa.array(indices))))
    words, bits = packed
    if (words[1:] >= words[:-1]).all():
        return Ordered(np.arange(len(words)), mark_run_starts(words))
    index_bits = (len(words) - 1).bit_length()
    if bits + index_bits <= _WORD:
        both = words << np.uint64(index_bits) | np.arange(len(words), dtype=np.uint64)
        both.sort()
        indices = (both & np.uint64((1 << index_bits) - 1)).astype(np.int64)
        words = both >> np.uint64(index_bits)
    else:
        indices = np.argsort(words, kind="stable")
        words = words[indices]
    return Ordered(indices, mark_run_starts(words))


def mark_run_starts(values: Vector) -> Vector:
    """True for the first value and for each value that differs from the previous one."""
    return _prepend_true(values[1:] != values[:-1])[: len(values)]


def _mark_cell_run_starts(cells: pa.LargeBinaryArray) -> Vector:
    previous = cells.slice(0, max(0, len(cells) - 1))
    return _prepend_true(pc.not_equal(cells.slice(1), previous).to_numpy(zero_copy_only=False))[: len(cells)]


def pack_keys(keys: pa.LargeBinaryArray) -> tuple[Vector, int] | None:
    """An integer per key that compares as the keys do, and the bits that it needs; None if it does not fit a word."""
    width = arrays.cell_width(keys)
    if width is None:
        return None
    cells = arrays.cell_matrix(keys, width)
    set_in_any, set_in_all = bits_in_any_and_all(cells)
    sizes = [int(byte).bit_length() for byte in set_in_any ^ set_in_all]
    if sum(sizes) > _WORD:
        return None
    words = np.zeros(len(keys), np.uint64)
    for position, size in enumerate(sizes):
        if size:
            words <<= np.uint64(size)
            words |= cells[:, position] & np.uint8((1 << size) - 1)
    return words, sum(sizes)


def bits_in_any_and_all(cells: Vector) -> tuple[Vector, Vector]:
    """For each byte position of a matrix of keys, the bits that are set in any key, and those that are in all keys."""
    count, width = cells.shape
    even = count - count % _BLOCK
    set_in_any, set_in_all = np.bitwise_or.reduce(cells[even:], axis=0), np.bitwise_and.reduce(cells[even:], axis=0)
    if even:
        wide = cells[:even].reshape(even // _BLOCK, _BLOCK * width)  # long rows: NumPy is slow on many short ones
        set_in_any |= np.bitwise_or.reduce(np.bitwise_or.reduce(wide, axis=0).reshape(_BLOCK, width), axis=0)
        set_in_all &= np.bitwise_and.reduce(np.bitwise_and.reduce(wide, axis=0).reshape(_BLOCK, width), axis=0)
    return set_in_any, set_in_all


def _prepend_true(differs: Vector) -> Vector:
    fresh = np.ones(len(differs) + 1, bool)
    fresh[1:] = differs
    return fresh
