"""What tasks read of the store, as DataFrames: columnar from the store to Spark."""

from __future__ import annotations

from collections.abc import Callable, Iterator

import pyarrow as pa
from pyspark.sql import DataFrame, SparkSession

from tailrace import types
from tailrace.store.base import Cut, TableDef
from tailrace.store.lmdb import attach

Batches = Iterator[pa.RecordBatch]


def frame(spark: SparkSession, partitions: int, read: Callable[[int], Batches], schema: str) -> DataFrame:
    """A DataFrame whose partition `i` is what `read(i)` yields in the worker."""

    def run(batches: Batches) -> Batches:
        for batch in batches:
            for index in batch.column(0).to_pylist():
                yield from read(index)

    return spark.range(0, partitions, 1, partitions).mapInArrow(run, schema)


def table_rows(spark: SparkSession, store: str, nodes: int, table: TableDef, cut: Cut) -> DataFrame:
    """The table at a cut, under its own column names: for queries and verification."""
    everything = tuple(range(len(table.columns)))

    def read(node: int) -> Batches:
        return attach(store).rows(table, node, cut, everything)

    schema = ", ".join(f"{types.quoted(c.name)} {c.type}" for c in table.columns)
    return frame(spark, nodes, read, schema)
