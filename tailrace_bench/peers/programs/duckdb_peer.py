"""DuckDB, in memory: apply each cycle's operations to a keyed table, then compute the view's table anew."""

from __future__ import annotations

import time

import duckdb
import pyarrow as pa
from shared import Task, View, answer_of, report, slices

ENDS = "view"
HOW = "DuckDB, recomputing"
LAST = """
CREATE OR REPLACE TEMP TABLE last AS SELECT unnest(arg_max(b, n)) FROM (
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


def one_each(batch: pa.Table) -> bool:
    return len(batch["id"].unique()) == len(batch)


def apply(db: duckdb.DuckDBPyConnection, batch: pa.Table, distinct: bool) -> None:
    """The last operation of a key counts; only where a key comes twice need it be found."""
    db.register("batch", batch)
    last = "batch"
    if not distinct:
        db.execute(LAST)
        last = "last"
    db.execute("BEGIN")
    db.execute(f"INSERT OR REPLACE INTO ops SELECT id, grp, amount, other FROM {last} WHERE op = 1")
    db.execute(f"DELETE FROM ops WHERE id IN (SELECT id FROM {last} WHERE op = -1)")
    db.execute("COMMIT")
    db.unregister("batch")


def measure(task: Task, view: View, cycle: int) -> None:
    ops, rows, side = task.table("ops", view.operations), task.table("table"), task.table("side")
    batches = [
        ops.slice(part.start, part.stop - part.start).combine_chunks() for part in slices(view.operations, cycle)
    ]
    distinct = [one_each(batch) for batch in batches]
    found: list[int] = []

    def run() -> float:
        db = connect(task, rows, side)
        began = time.perf_counter()
        for batch, once in zip(batches, distinct, strict=True):
            apply(db, batch, once)
            db.execute(f"CREATE OR REPLACE TABLE result AS {view.sql}")
        taken = time.perf_counter() - began
        found[:] = answer_of(db.sql("SELECT * FROM result").to_arrow_table())
        db.close()
        return taken

    report(view, task.repeat(run), found, how=HOW, cycle=cycle, ends=ENDS)


if __name__ == "__main__":
    task = Task.given()
    for view in task.views:
        for cycle in view.cycles:
            measure(task, view, cycle)
