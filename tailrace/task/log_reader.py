"""Reads a table's delta for an assignment, inside a task.

    delta(T, [start, end))  =  rows after (+1) and rows before (-1)      of every log entry in the range
    delta(T, [None, c))     =  the rows of T at cut c, each +1           to build a new view
    delta(part of T)        =  the delta of keys in the part, and all rows of keys added to it (`parts.py`)

Reading a range costs its own size, independent of the table. `net` drops rows that a later operation of the range
deletes again.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import numpy as np
import pyarrow as pa

from tailrace.codec.schema import TableDef
from tailrace.delta import WEIGHT, column, firsts, group_ids
from tailrace.store.base import Store
from tailrace.task.assignment import Assignment

Batches = Iterator[pa.RecordBatch]


def read_delta(
    store: Store, table: TableDef, nodes: Sequence[int], covered: Assignment, positions: Sequence[int], *, net: bool
) -> Batches:
    """The delta's columns at `positions` as `_0`, `_1`, ..., then `_weight`; node by node."""
    names = [*(column(i) for i in range(len(positions))), WEIGHT]
    for node in nodes:
        for batch in _read(store, table, node, covered, positions, net):
            yield batch.rename_columns(names)


def _read(
    store: Store, table: TableDef, node: int, covered: Assignment, positions: Sequence[int], net: bool
) -> Batches:
    if covered.start is None:
        for batch in store.rows(table, node, covered.end, positions):
            yield batch.append_column(WEIGHT, pa.repeat(pa.scalar(1, pa.int8()), batch.num_rows))
        return
    start, end = covered.start, covered.end
    if covered.part is None and not net:
        yield from store.deltas(table, node, start, end, positions)
        return
    with_key = [*positions, *(p for p in table.positions if p not in positions)]
    batches = list(store.deltas(table, node, start, end, with_key))
    if batches:
        batch = pa.concat_batches(batches)
        if covered.part is not None:
            batch = covered.part.only_loaded(batch, table, node, with_key, store.key_limit)
        batch = _drop_cancelled(batch, table, with_key) if net else batch
        yield batch.select([*range(len(positions)), len(with_key)])
    if covered.part is not None:
        for batch in covered.part.coming_rows(store, table, node, covered.end, positions):
            yield batch.append_column(WEIGHT, pa.repeat(pa.scalar(1, pa.int8()), batch.num_rows))


def _drop_cancelled(batch: pa.RecordBatch, table: TableDef, positions: list[int]) -> pa.RecordBatch:
    """Keeps, for each key, its first row if deleted and its last row if inserted.

    A node's log has the changes of a key in order, and each deletes the row that the one before inserted. So all rows
    between the first and the last cancel out.
    """
    weights = batch.column(WEIGHT).to_numpy()
    if (weights > 0).all():  # only inserts: each key occurs once
        return batch
    keys = table.keys.encode([batch.column(positions.index(p)) for p in table.positions], batch.num_rows)
    ids, distinct = group_ids(keys)
    first, last = firsts(ids, len(distinct)), np.empty(len(distinct), dtype=np.int64)
    last[ids] = np.arange(len(ids))
    kept = np.concatenate((first[weights[first] < 0], last[weights[last] > 0]))
    return batch.take(pa.array(np.sort(kept)))
