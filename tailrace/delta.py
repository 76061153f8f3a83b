"""The format of a delta: a relation's columns by position, `_0`, `_1`, ..., and `_weight`.

    +n  the row was inserted n times        -n  it was deleted n times        0  it did not change

A delta is an Arrow table inside a stage, and a DataFrame of rows or of row batches between stages. The same row may
appear several times, in any order; only the sum of its weights matters.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from tailrace.types import Column

WEIGHT = "_weight"
SHARD = "_shard"

Indices = npt.NDArray[np.int64]
Fields = tuple[tuple[str, str], ...]

WEIGHED = (WEIGHT, "bigint")


def column(position: int) -> str:
    return f"_{position}"


def delta_fields(columns: Sequence[Column]) -> Fields:
    return (*((column(i), c.type) for i, c in enumerate(columns)), WEIGHED)


def group_ids(keys: pa.Array | pa.ChunkedArray) -> tuple[Indices, pa.Array]:
    """Numbers the distinct keys by first appearance. Returns the group number of each row and the key of each group."""
    if isinstance(keys, pa.ChunkedArray):
        keys = keys.combine_chunks()
    encoded = keys.dictionary_encode()
    return encoded.indices.to_numpy(zero_copy_only=False).astype(np.int64), encoded.dictionary


def sum_by(ids: Indices, groups: int, weights: npt.NDArray[np.int64]) -> npt.NDArray[np.int64]:
    """The sum of weights of each group."""
    totals = np.zeros(groups, dtype=np.int64)
    np.add.at(totals, ids, weights)
    return totals


def firsts(ids: Indices, groups: int) -> Indices:
    """The index of the first row of each group."""
    first = np.empty(groups, dtype=np.int64)
    first[ids[::-1]] = np.arange(len(ids) - 1, -1, -1)
    return first


def matches(left: Indices, right: Indices, groups: int) -> tuple[Indices, Indices]:
    """An equi-join on group numbers: all pairs (i, j) with left[i] == right[j], as two index arrays."""
    order = np.argsort(right, kind="stable")
    counts = np.bincount(right, minlength=groups)
    starts = np.concatenate(([0], np.cumsum(counts)[:-1])) if groups else np.zeros(0, dtype=np.int64)
    per_left = counts[left]
    left_index = np.repeat(np.arange(len(left)), per_left)
    within = np.arange(per_left.sum()) - np.repeat(np.cumsum(per_left) - per_left, per_left)
    return left_index, order[np.repeat(starts[left], per_left) + within]
