"""Window functions, by affected partitions.

    Δ = -windows_old(p) + windows(rows_new(p))        for every partition p in the delta

The rows of a touched partition after the epoch go to Spark, which computes the windows; what each partition
gave last is stored (`affected.py`). Spark's own shuffle for PARTITION BY places rows just as shards are placed,
so the stage that compares needs none of its own. The cost is the size of the touched partitions.
"""

from __future__ import annotations

from pyspark.sql import DataFrame
from pyspark.sql import functions as F  # noqa: N812

from tailrace.delta import WEIGHT, column
from tailrace.plan.nodes import Window
from tailrace.plan.ties import NUMBER, window_sql
from tailrace.rules.affected import LIVE


def over(node: Window, rows: DataFrame) -> DataFrame:
    """What the windows say of all rows of some partitions."""
    if node.input.key is None:
        rows = rows.withColumn("_copy", F.expr(f"explode(sequence(1L, {WEIGHT}))"))
    number, calls = window_sql(node)
    if number is not None:
        rows = rows.selectExpr("*", f"{number} AS {NUMBER}")
    width = len(node.input.columns)
    values = [
        f"CAST({sql} AS {c.type}) AS {column(width + i)}"
        for i, (sql, c) in enumerate(zip(calls, node.calls, strict=True))
    ]
    return rows.selectExpr(*map(column, range(width)), *values, LIVE)
