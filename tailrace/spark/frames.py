"""DataFrames over the store: tables at a cut, views at an epoch, and query results. Data stays columnar throughout."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from functools import partial

import numpy as np
import pyarrow as pa
from pyspark.sql import DataFrame, SparkSession

from tailrace import types
from tailrace.catalog.definition import ViewDef
from tailrace.codec.rows import RowCodec
from tailrace.codec.schema import TableDef
from tailrace.codec.weighted import split
from tailrace.plan.binding import BoundQuery
from tailrace.plan.sql.times import at_time
from tailrace.sent_errors import send_errors
from tailrace.store.base import Cut, Store

Batches = Iterator[pa.RecordBatch]
WEIGHT_COLUMN = "_weight"


def frame(spark: SparkSession, partitions: int, read: Callable[[int], Batches], schema: str) -> DataFrame:
    """A DataFrame whose partition `i` has the batches that `read(i)` yields in a Python worker."""

    def run(batches: Batches) -> Batches:
        for batch in batches:
            for index in batch.column(0).to_pylist():
                yield from send_errors(partial(read, index))

    return spark.range(0, partitions, 1, partitions).mapInArrow(run, schema)


def table_rows(spark: SparkSession, store: Store, table: TableDef, cut: Cut) -> DataFrame:
    """A table's rows at a cut, under its own column names. For queries and verification."""
    positions, ref = table.slots, store.ref

    def read(node: int) -> Batches:
        return ref.attach().rows(table, node, cut, positions)

    schema = ", ".join(f"{types.quoted(c.name)} {c.type}" for c in table.columns)
    return frame(spark, store.nodes, read, schema)


def query_rows(spark: SparkSession, store: Store, query: BoundQuery, cut: Cut, time: int) -> DataFrame:
    """The result of a view's query over the tables at a cut, with `now()` as the time of the epoch.

    It replaces temporary views of `spark`: use a new session.
    """
    frames = []
    for name, source in query.reads:
        if isinstance(source, BoundQuery):
            frames.append((name, query_rows(spark, store, source, cut, time)))
        else:
            frames.append((name, table_rows(spark, store, source, cut)))
    for name, rows in frames:  # after all of them: the SQL of a view may know fewer columns of the same table
        rows.createOrReplaceTempView(types.quoted(name))
    return spark.sql(at_time(query.sql, time))


def view_rows(spark: SparkSession, store: Store, view: ViewDef, epoch: int) -> DataFrame:
    """A view's stored rows at an epoch, each distinct row with its weight."""
    state, columns, is_keyed, ref = view.state, view.columns, view.key is not None, store.ref

    def read(shard: int) -> Iterator[pa.RecordBatch]:
        codec = RowCodec(types.schema(columns))
        with ref.attach().shard(shard).at(epoch) as snapshot:
            for run in snapshot.scan(state):
                values = [v for _, v in run]
                weights = np.ones(len(values), dtype=np.int64)
                if not is_keyed:
                    weights, values = split(values)
                yield codec.decode(values).append_column(WEIGHT_COLUMN, pa.array(weights, pa.int64()))

    schema = ", ".join([f"{types.quoted(c.name)} {c.type}" for c in columns] + [f"{WEIGHT_COLUMN} bigint"])
    return frame(spark, store.shards, read, schema)


def view_frame(spark: SparkSession, store: Store, view: ViewDef, epoch: int) -> DataFrame:
    """A view's rows at an epoch, with duplicates repeated."""
    rows = view_rows(spark, store, view, epoch)
    names = [types.quoted(c.name) for c in view.columns]
    if view.key is None:
        rows = rows.selectExpr(*names, f"explode(sequence(1L, {WEIGHT_COLUMN})) AS _copy")
    return rows.selectExpr(*names)
