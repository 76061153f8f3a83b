"""Views that are recomputed by Spark as their SQL stands.

    V_new = query(tables at the end of the epoch)        written: V_new - V_old, shard by shard

Only the view's own rows are state.
"""

from __future__ import annotations

from dataclasses import dataclass

from pyspark.sql import DataFrame, SparkSession

from tailrace.delta import SHARD, WEIGHT, column, delta_fields
from tailrace.plan.binding import Query
from tailrace.plan.nodes import Key
from tailrace.plan.physical.estimate import OVERHEAD, estimate
from tailrace.plan.physical.physical_plan import ViewSink
from tailrace.plan.policy import Way
from tailrace.rules.sink import Sink
from tailrace.spark.compile import REPORTED
from tailrace.spark.fragments import Fragment
from tailrace.spark.frames import query_rows
from tailrace.spark.stages import Stages
from tailrace.store.base import Cut, Store
from tailrace.task.program import Keep
from tailrace.types import Column


@dataclass(frozen=True)
class RecomputableView:
    """A view that may be recomputed: its query, and its plan if deltas are a choice (`sink`).

    Without a plan `reason` says why it has none.
    """

    name: str
    state: int
    tables: frozenset[int]
    query: Query
    columns: tuple[Column, ...]
    key: Key | None
    place: tuple[int, ...]
    sink: ViewSink | None
    reason: str

    def way(self, operations: dict[int, int], rows: dict[int, int], overhead: int = OVERHEAD) -> Way:
        """How to bring it up to date over an epoch with these operations on tables with these rows."""
        if self.sink is None:
            return Way("recomputed", self.reason)
        return estimate(self.sink.plan, operations, rows, overhead).way


def replaced(spark: SparkSession, store: Store, stages: Stages, view: RecomputableView, cut: Cut) -> DataFrame:
    """A frame that stores the view's query at a cut in place of what the view holds."""
    names = [column(i) for i in range(len(view.columns))]
    shard = stages.shard([column(p) for p in view.place])
    rows = query_rows(spark, store, view.query, cut).toDF(*names).selectExpr(*names, f"1L AS {WEIGHT}", shard)
    placed = rows.coalesce(1) if stages.single else stages.shuffle(rows)
    fed = Fragment(placed, (), (*delta_fields(view.columns), (SHARD, "int")))
    keep = Keep(Sink(view.state, view.columns, view.key, store.key_limit), (fed.schema,), ((),), stages.shards)
    return stages.run([Fragment(keep, (fed,), REPORTED)])
