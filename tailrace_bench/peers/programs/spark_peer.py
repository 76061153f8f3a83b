"""Spark, recomputing: computes the view from the whole table, a Parquet file, and overwrites the old result.

Spark Declarative Pipelines does the same. Applying the operations to the table is not timed.
"""

from __future__ import annotations

import tempfile

import numpy as np
import pyarrow as pa
import pyarrow.parquet
from pyspark.sql import SparkSession
from shared import Task, View, answer_of, report, time_call

HOW = "Spark (recomputing)"
ENDS = "view"


def final_rows(task: Task, view: View) -> pa.Table:
    """The table after the view's operations: the last row of each key that was not deleted."""
    ops, table = task.table("ops", view.operations), task.table("table")
    put = table.add_column(0, "op", pa.array(np.ones(len(table), np.int8)))
    all_ = pa.concat_tables([put, ops])
    newest = len(all_) - 1 - np.unique(all_["id"].to_numpy()[::-1], return_index=True)[1]
    last = all_.take(pa.array(newest))
    return last.filter(pa.array(last["op"].to_numpy() == 1)).drop_columns(["op"])


def session(task: Task) -> SparkSession:
    builder = SparkSession.builder.master(f"local[{task.cores}]").appName("recompute")
    settings = {
        "spark.ui.enabled": "false",
        "spark.log.level": "ERROR",
        "spark.driver.bindAddress": "127.0.0.1",
        "spark.driver.host": "127.0.0.1",
        "spark.driver.memory": "4g",
        "spark.sql.shuffle.partitions": str(task.cores),
    }
    for name, value in settings.items():
        builder = builder.config(name, value)
    return builder.getOrCreate()


def measure(task: Task, spark: SparkSession, view: View) -> None:
    with tempfile.TemporaryDirectory() as scratch:
        for name, rows in (("ops", final_rows(task, view)), ("side", task.table("side"))):
            pyarrow.parquet.write_table(rows, f"{scratch}/{name}.parquet")
            spark.read.parquet(f"{scratch}/{name}.parquet").createOrReplaceTempView(name)
        out = f"{scratch}/view"
        seconds = task.repeat(lambda: time_call(lambda: spark.sql(view.sql).write.mode("overwrite").parquet(out)))
        view_answer = answer_of(pyarrow.parquet.read_table(out))
    for cycle in view.cycles:
        report(view, seconds, view_answer, how=HOW, cycle=cycle, ends=ENDS, operations=cycle)


if __name__ == "__main__":
    task = Task.from_command_line()
    spark = session(task)
    for view in task.views:
        measure(task, spark, view)
    spark.stop()
