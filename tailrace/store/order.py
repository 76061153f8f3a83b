"""Binary keys in order.

Most keys are short, of one length, and alike but for a few bytes: the marks of columns, high bytes of numbers. Where
the bytes in which any of them differ are eight at most, keys are sorted as numbers, five times faster than as bytes.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from tailrace.store import arrays
from tailrace.store.arrays import Vector

_WORD = 8  # bytes


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
    words = packed(keys)
    if words is None:
        indices = pc.sort_indices(keys).to_numpy().astype(np.int64)
        return Ordered(indices, differing(keys.take(pa.array(indices))))
    if (words[1:] >= words[:-1]).all():
        return Ordered(np.arange(len(words)), _first_and(words[1:] != words[:-1]))
    indices = np.argsort(words, kind="stable")
    words = words[indices]
    return Ordered(indices, _first_and(words[1:] != words[:-1]))


def differing(keys: pa.LargeBinaryArray) -> Vector:
    """For each key whether it is the first or another than the one before."""
    before = keys.slice(0, max(0, len(keys) - 1))
    return _first_and(pc.not_equal(keys.slice(1), before).to_numpy(zero_copy_only=False))[: len(keys)]


def packed(keys: pa.LargeBinaryArray) -> Vector | None:
    """A number for each key, equal and ordered as the keys are; None if they differ too much for that."""
    count = len(keys)
    if not count or keys.null_count:
        return None
    edges = arrays.offsets(keys)
    width = int(edges[1] - edges[0])
    if not (np.diff(edges) == width).all():
        return None
    data = np.frombuffer(arrays.content(keys), np.uint8, count=count * width, offset=int(edges[0]))
    cells = data.reshape(count, width)
    places: list[int] = []
    for place in range(width):
        if (cells[:, place] != cells[0, place]).any():
            places.append(place)
            if len(places) > _WORD:
                return None
    words = np.zeros((count, _WORD), np.uint8)
    for at, place in enumerate(reversed(places)):
        words[:, at] = cells[:, place]
    return words.reshape(-1).view("<u8")


def _first_and(differs: Vector) -> Vector:
    fresh = np.ones(len(differs) + 1, bool)
    fresh[1:] = differs
    return fresh
