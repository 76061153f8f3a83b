"""Recomputes a view by running its SQL on Spark.

    V_new = query(tables at the end of the epoch)        written: V_new - V_old, shard by shard

The view's rows are its only state.
"""

from __future__ import annotations

from dataclasses import dataclass

from pyspark.sql import DataFrame, SparkSession

from tailrace.delta import SHARD, WEIGHT, column, delta_fields
from tailrace.plan.binding import BoundQuery
from tailrace.plan.nodes import Key
from tailrace.plan.physical.estimate import OVERHEAD, estimate
from tailrace.plan.physical.physical_plan import ViewSink
from tailrace.plan.policy import Way
from tailrace.rules.sink import Sink
from tailrace.spark.flows import REPORT_FIELDS
from tailrace.spark.fragments import Fragment
from tailrace.spark.frames import query_rows
from tailrace.spark.stages import Stages
from tailrace.store.base import Cut, Store
from tailrace.task.program import Keep
from tailrace.types import Column


@dataclass(frozen=True)
class RecomputableView:
    """A view with policy `auto` or `full`: its query and, if deltas can maintain it, its physical plan (`sink`).

    If there is no plan, `reason` says why.
    """

    name: str
    state: int
    tables: frozenset[int]
    query: BoundQuery
    columns: tuple[Column, ...]
    key: Key | None
    place: tuple[int, ...]
    sink: ViewSink | None
    reason: str

    def choose_way(self, operations: dict[int, int], rows: dict[int, int], overhead: int = OVERHEAD) -> Way:
        """Chooses deltas or recomputation by estimated cost, given each table's operations and rows."""
        if self.sink is None:
            return Way("recomputed", self.reason)
        return estimate(self.sink.plan, operations, rows, overhead).way


def replacing_frame(
    spark: SparkSession, store: Store, stages: Stages, view: RecomputableView, cut: Cut, time: int
) -> DataFrame:
    """The frame that, when run, replaces the view's rows by the result of its query at a cut and time."""
    names = [column(i) for i in range(len(view.columns))]
    shard = stages.shard_sql([column(p) for p in view.place])
    rows = query_rows(spark, store, view.query, cut, time).toDF(*names).selectExpr(*names, f"1L AS {WEIGHT}", shard)
    placed = rows.coalesce(1) if stages.single else stages.shuffle(rows)
    source = Fragment(placed, (), (*delta_fields(view.columns), (SHARD, "int")))
    keep = Keep(Sink(view.state, view.columns, view.key, store.key_limit), (source.schema,), ((),), stages.shards)
    return stages.to_frame([Fragment(keep, (source,), REPORT_FIELDS)])
