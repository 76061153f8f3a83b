"""Tables and views as Spark sees them: at one pinned epoch, under their own names."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from contextlib import contextmanager

import numpy as np
import pyarrow as pa
from pyspark.sql import DataFrame, SparkSession

from tailrace import types
from tailrace.source.frames import frame
from tailrace.store.base import Store
from tailrace.store.lmdb import attach
from tailrace.store.pins import Pin, pinned
from tailrace.store.rows import RowCodec
from tailrace.store.weighted import split
from tailrace.views.catalog import Catalog, Relations, ViewDef

WEIGHT_COLUMN = "_weight"


@contextmanager
def readable(store: Store, catalog: Catalog, names: Iterable[str]) -> Iterator[Pin]:
    """Pin an epoch at which all these can be read: none from before one of these views was published."""
    while True:
        with pinned(store) as pin:
            views = catalog.views
            if all(views[name].since <= pin.epoch for name in names if name in views):
                yield pin
                return


@contextmanager
def pinned_relations(store: Store, catalog: Catalog) -> Iterator[tuple[Pin, Relations]]:
    """Pin an epoch, with all tables and views there are, at which all of them can be read."""
    while True:
        with pinned(store) as pin:
            relations = catalog.relations
            if all(view.since <= pin.epoch for view in relations.views.values()):
                yield pin, relations
                return


def view_rows(spark: SparkSession, store: str, shards: int, view: ViewDef, epoch: int) -> DataFrame:
    """The view's stored rows at an epoch, each with how often it is there."""
    state, columns, keyed = view.state, view.columns, view.key is not None

    def read(shard: int) -> Iterator[pa.RecordBatch]:
        codec = RowCodec(types.schema(columns))
        with attach(store).shard(shard).at(epoch) as snapshot:
            for run in snapshot.scan(state):
                values = [v for _, v in run]
                weights = np.ones(len(values), dtype=np.int64)
                if not keyed:
                    weights, values = split(values)
                yield codec.decode(values).append_column(WEIGHT_COLUMN, pa.array(weights, pa.int64()))

    schema = ", ".join([f"{types.quoted(c.name)} {c.type}" for c in columns] + [f"{WEIGHT_COLUMN} bigint"])
    return frame(spark, shards, read, schema)


def view_frame(spark: SparkSession, store: str, shards: int, view: ViewDef, epoch: int) -> DataFrame:
    """The view as a plain relation: duplicates as rows of their own."""
    rows = view_rows(spark, store, shards, view, epoch)
    names = [types.quoted(c.name) for c in view.columns]
    if view.key is None:
        rows = rows.selectExpr(*names, f"explode(sequence(1L, {WEIGHT_COLUMN})) AS _copy")
    return rows.selectExpr(*names)
