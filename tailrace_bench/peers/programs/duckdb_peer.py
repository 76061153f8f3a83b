"""DuckDB in memory: applies each cycle's operations to a keyed table, then recomputes the view's table."""

from __future__ import annotations

import time

import duckdb
import pyarrow as pa
from shared import Task, View, answer_of, report, slices

ENDS = "view"
HOW = "DuckDB (recomputing)"
LAST = """
CREATE OR REPLACE TEMP TABLE newest AS SELECT unnest(arg_max(b, n)) FROM (
  SELECT b, row_number() OVER () AS n FROM batch b
) GROUP BY b.id
"""


def connect(task: Task, rows: pa.Table, side: pa.Table) -> duckdb.DuckDBPyConnection:
    db = duckdb.connect(config={"threads": task.cores})
    db.execute("CREATE TABLE ops (id BIGINT PRIMARY KEY, grp BIGINT, amount BIGINT, other BIGINT)")
    db.register("rows", rows)
    db.execute("INSERT INTO ops SELECT * FROM rows")
    db.register("sides", side)
    db.execute("CREATE TABLE side AS SELECT * FROM sides")
    return db


def has_distinct_ids(batch: pa.Table) -> bool:
    return len(batch["id"].unique()) == len(batch)


def apply(db: duckdb.DuckDBPyConnection, batch: pa.Table, distinct: bool) -> None:
    """Applies a batch. The newest operation of each key counts; a batch of distinct keys needs no search for it."""
    db.register("batch", batch)
    newest = "batch"
    if not distinct:
        db.execute(LAST)
        newest = "newest"
    db.execute("BEGIN")
    db.execute(f"INSERT OR REPLACE INTO ops SELECT id, grp, amount, other FROM {newest} WHERE op = 1")
    db.execute(f"DELETE FROM ops WHERE id IN (SELECT id FROM {newest} WHERE op = -1)")
    db.execute("COMMIT")
    db.unregister("batch")


def measure(task: Task, view: View, cycle: int) -> None:
    ops, rows, side = task.table("ops", view.operations), task.table("table"), task.table("side")
    batches = [
        ops.slice(part.start, part.stop - part.start).combine_chunks() for part in slices(view.operations, cycle)
    ]
    distinct = [has_distinct_ids(batch) for batch in batches]
    view_answer: list[int] = []

    def run() -> float:
        db = connect(task, rows, side)
        began = time.perf_counter()
        for batch, is_distinct in zip(batches, distinct, strict=True):
            apply(db, batch, is_distinct)
            db.execute(f"CREATE OR REPLACE TABLE result AS {view.sql}")
        seconds = time.perf_counter() - began
        view_answer[:] = answer_of(db.sql("SELECT * FROM result").to_arrow_table())
        db.close()
        return seconds

    report(view, task.repeat(run), view_answer, how=HOW, cycle=cycle, ends=ENDS)


if __name__ == "__main__":
    task = Task.from_command_line()
    for view in task.views:
        for cycle in view.cycles:
            measure(task, view, cycle)
