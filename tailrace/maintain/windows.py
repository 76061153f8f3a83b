"""Window functions, by affected partitions.

    Δ = -windows_old(p) + windows(rows_new(p))        for every partition p in the delta

The rows of a touched partition after the epoch go to Spark, which computes the windows; what each partition
gave last is stored (`affected.py`). Spark's own shuffle for PARTITION BY places rows just as shards are placed,
so the stage that compares needs none of its own. The cost is the size of the touched partitions.
"""

from __future__ import annotations

from collections.abc import Mapping

from pyspark.sql import DataFrame
from pyspark.sql import functions as F  # noqa: N812

from tailrace.delta import WEIGHT, column
from tailrace.maintain.affected import LIVE, Affected, Outputs
from tailrace.maintain.arranged import Arranged
from tailrace.maintain.stages import Stages
from tailrace.plan.arrangements import window_arrangements
from tailrace.plan.nodes import Window
from tailrace.plan.order import NUMBER, window_sql


def maintained(node: Window, placed: DataFrame, stages: Stages, states: Mapping[str, int]) -> DataFrame:
    """The delta of a window node, given its input's delta placed by partition."""
    rows, outputs = window_arrangements(node)
    source = node.input
    frame = stages.run(placed, Affected(Arranged(states[rows.fingerprint], source.columns, source.key, node.partition)))
    if source.key is None:
        frame = frame.withColumn("_copy", F.expr(f"explode(sequence(1L, {WEIGHT}))"))
    number, calls = window_sql(node)
    if number is not None:
        frame = frame.selectExpr("*", f"{number} AS {NUMBER}")
    width = len(source.columns)
    values = [
        f"CAST({sql} AS {c.type}) AS {column(width + i)}"
        for i, (sql, c) in enumerate(zip(calls, node.calls, strict=True))
    ]
    frame = frame.selectExpr(*map(column, range(width)), *values, LIVE)
    frame = frame.selectExpr("*", stages.shard([column(p) for p in node.partition]))
    return stages.run(frame, Outputs(Arranged(states[outputs.fingerprint], node.columns, node.key, node.partition)))
