"""A table's delta over an assigned range, read inside a task.

    delta(T, [start, end))  =  rows after (+1)  -  rows before (-1)      of every entry in the range
    delta(T, [nothing, c))  =  the rows of T at cut c, each +1           what a new view is built from
    delta(part of T)        =  that of the part's keys, and the rows of those that come into it (`parts.py`)

A range costs its own size, never the table's. With `net`, rows that a later operation of the range takes
back are left away.
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
    """Chosen columns as `_0`, `_1`, ... and `_weight`, node after node."""
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
    wanted = [*positions, *(p for p in table.positions if p not in positions)]
    batches = list(store.deltas(table, node, start, end, wanted))
    if batches:
        batch = pa.concat_batches(batches)
        if covered.part is not None:
            batch = covered.part.only_loaded(batch, table, node, wanted, store.key_limit)
        batch = _net(batch, table, wanted) if net else batch
        yield batch.select([*range(len(positions)), len(wanted)])
    if covered.part is not None:
        for batch in covered.part.coming_rows(store, table, node, covered.end, positions):
            yield batch.append_column(WEIGHT, pa.repeat(pa.scalar(1, pa.int8()), batch.num_rows))


def _net(batch: pa.RecordBatch, table: TableDef, positions: list[int]) -> pa.RecordBatch:
    """Per key only its first row if that was taken away, and its last if that was added.

    A node's log has a key's changes in order, and each takes away what the one before added: all
    between the first and the last cancels out.
    """
    weights = batch.column(WEIGHT).to_numpy()
    if (weights > 0).all():  # only new rows: each key once
        return batch
    keys = table.keys.encode([batch.column(positions.index(p)) for p in table.positions], batch.num_rows)
    ids, distinct = group_ids(keys)
    first, last = firsts(ids, len(distinct)), np.empty(len(distinct), dtype=np.int64)
    last[ids] = np.arange(len(ids))
    kept = np.concatenate((first[weights[first] < 0], last[weights[last] > 0]))
    return batch.take(pa.array(np.sort(kept)))
