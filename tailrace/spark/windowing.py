"""Window functions, by affected partitions.

    Δ = -windows_old(p) + windows(rows_new(p))        for every partition p in the delta

Spark computes the windows over all rows of the touched partitions after the epoch. The previous result of each
partition is stored (`rules/affected.py`). Spark's shuffle for PARTITION BY places rows in the tasks of their shards,
so comparing with the stored result needs no second shuffle. The cost is the size of the touched partitions.
"""

from __future__ import annotations

from pyspark.sql import DataFrame
from pyspark.sql import functions as F  # noqa: N812

from tailrace.delta import WEIGHT, column
from tailrace.plan.nodes import Window
from tailrace.plan.ties import NUMBER, window_sql
from tailrace.rules.affected import LIVE


def compute_windows(node: Window, rows: DataFrame) -> DataFrame:
    """Evaluates the window calls over `rows`, which are all rows of the touched partitions."""
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
