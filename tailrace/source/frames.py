"""Log ranges and tables as DataFrames.

    delta(T, [start, end))  =  rows after (+1)  -  rows before (-1)      of every entry in the range
    delta(T, [nothing, c))  =  the rows of T at cut c, each +1           what a new view is built from
    delta(part of T)        =  that of the part's keys, and the rows of those that come into it (`parts.py`)

A frame has a partition per node (`spread`) or one in all, and stays columnar: a task reads batches
from the store and hands them to Spark as they are. A range costs its own size, never the table's.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence

import numpy as np
import pyarrow as pa
from pyspark.sql import DataFrame, SparkSession

from tailrace.delta import WEIGHT, column, firsts, group_ids
from tailrace.source.assignment import Assignment, Handed
from tailrace.source.totals import Totals
from tailrace.store.base import Cut, TableDef
from tailrace.store.lmdb import attach
from tailrace.types import Column

Batches = Iterator[pa.RecordBatch]


def frame(spark: SparkSession, partitions: int, read: Callable[[int], Batches], schema: str) -> DataFrame:
    """A DataFrame whose partition `i` is what `read(i)` yields in the worker."""

    def run(batches: Batches) -> Batches:
        for batch in batches:
            for index in batch.column(0).to_pylist():
                yield from read(index)

    return spark.range(0, partitions, 1, partitions).mapInArrow(run, schema)


def ddl(columns: Sequence[Column], *extra: str) -> str:
    """The schema text of positional columns and whatever else a frame carries."""
    return ", ".join([f"{column(i)} {c.type}" for i, c in enumerate(columns)] + list(extra))


def table_delta(
    spark: SparkSession,
    store: str,
    nodes: int,
    table: TableDef,
    positions: Sequence[int],
    handed: Handed,
    *,
    spread: bool,
    net: bool,
) -> DataFrame:
    """The table's delta over the assigned range: chosen columns and `_weight`, the partitions being the nodes.

    With `net`, rows that a later operation of the range takes back are not sent at all.
    """
    positions = tuple(positions)

    def read(partition: int) -> Batches:
        for node in [partition] if spread else range(nodes):
            for batch in _read(store, table, node, handed.take(), positions, net):
                yield batch.rename_columns([*(column(i) for i in range(len(positions))), WEIGHT])

    schema = ddl([table.columns[p] for p in positions], f"{WEIGHT} tinyint")
    return frame(spark, nodes if spread else 1, read, schema)


def table_totals(
    spark: SparkSession,
    store: str,
    nodes: int,
    table: TableDef,
    positions: Sequence[int],
    handed: Handed,
    totals: Totals,
    *,
    spread: bool,
) -> DataFrame:
    """Sums by group over the assigned range, one row per group and partition."""
    positions = tuple(positions)

    def read(partition: int) -> Batches:
        assigned = handed.take()
        for node in [partition] if spread else range(nodes):
            yield from totals.over(_read(store, table, node, assigned, positions, False))

    schema = totals.ddl([table.columns[p].type for p in positions])
    return frame(spark, nodes if spread else 1, read, schema)


def _read(path: str, table: TableDef, node: int, covered: Assignment, positions: tuple[int, ...], net: bool) -> Batches:
    store = attach(path)
    if covered.start is None:
        for batch in store.rows(table, node, covered.end, positions):
            yield batch.append_column(WEIGHT, pa.repeat(pa.scalar(1, pa.int8()), batch.num_rows))
        return
    start, end = covered.start.offsets[node], covered.end.offsets[node]
    if covered.part is None and not net:
        yield from store.deltas(table, node, start, end, positions)
        return
    wanted = [*positions, *(p for p in table.positions if p not in positions)]
    batches = list(store.deltas(table, node, start, end, wanted))
    if batches:
        batch = pa.concat_batches(batches)
        if covered.part is not None:
            batch = covered.part.only_loaded(batch, table, node, wanted)
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


def table_rows(spark: SparkSession, store: str, nodes: int, table: TableDef, cut: Cut) -> DataFrame:
    """The table at a cut, under its own column names: for queries and verification."""
    everything = tuple(range(len(table.columns)))

    def read(node: int) -> Batches:
        return attach(store).rows(table, node, cut, everything)

    schema = ", ".join(f"`{c.name}` {c.type}" for c in table.columns)
    return frame(spark, nodes, read, schema)
