"""Deephaven, embedded: each cycle of its update graph takes the next operations from a blink table; the last row of a
key is kept, and the view, a table in memory, follows in the same cycle."""

from __future__ import annotations

import threading
import time
from collections.abc import Iterator

import numpy as np
from deephaven_server import Server
from shared import COLUMNS, Task, View, answer, report, slices

HOW = "Deephaven"
ENDS = "view"
FIELDS = ("op", "id", "grp", "amount", "other")


def start(task: Task) -> Server:
    server = Server(
        port=0,
        jvm_args=[
            "-Xmx6g",
            "-DPeriodicUpdateGraph.targetCycleDurationMillis=1",  # cycles follow each other at once
            f"-DPeriodicUpdateGraph.updateThreads={task.cores}",
            f"-Ddeephaven.dataDir={task.directory}/deephaven-data",
            f"-Ddeephaven.cacheDir={task.directory}/deephaven-cache",
        ],
        default_jvm_args=["-XX:+UseG1GC"],
    )
    server.start()
    return server


def tables(columns: dict[str, np.ndarray], cycle: int) -> Iterator[object]:
    from deephaven import new_table
    from deephaven.column import byte_col, long_col

    for part in slices(len(columns["id"]), cycle):
        made = [long_col(name, values[part]) for name, values in columns.items() if name != "op"]
        if "op" in columns:
            made.append(byte_col("op", columns["op"][part]))
        yield new_table(made)


def derive(view: View, live: object, side: object) -> object:
    from deephaven import agg

    if view.name == "sum":
        return live.agg_by([agg.sum_("total = amount"), agg.count_("n")], by="grp")
    if view.name == "extremes":
        return live.agg_by([agg.min_("lo = other"), agg.max_("hi = other")], by="grp")
    if view.name == "filter":
        return live.where("amount < 500").view(["id", "grp", "amount"])
    return live.view(["id", "grp", "amount"]).join(side, on="grp", joins=["side = id", "price"])


def run(view: View, batches: list[object], side: object) -> tuple[float, list[int]]:
    from deephaven import dtypes
    from deephaven.liveness_scope import liveness_scope
    from deephaven.numpy import to_numpy
    from deephaven.stream.table_publisher import table_publisher
    from deephaven.update_graph import exclusive_lock

    definition = {name: dtypes.byte if name == "op" else dtypes.int64 for name in FIELDS}
    left, began, ended, done = iter(batches), [0.0], [0.0], threading.Event()
    begin = threading.Event()

    def publish(publisher: object) -> None:
        """Called at the start of each cycle; the cycle after the last one shows that the last one has ended."""
        if not begin.is_set() or done.is_set():
            return
        if not began[0]:
            began[0] = time.perf_counter()
        batch = next(left, None)
        if batch is None:
            ended[0] = time.perf_counter()
            done.set()
        else:
            publisher.add(batch)

    with liveness_scope():
        blink, publisher = table_publisher("ops", definition, on_flush_callback=publish)
        live = blink.last_by("id").where("op == 1")
        result = derive(view, live, side)
        begin.set()
        if not done.wait(600):
            raise SystemExit("Deephaven did not take all operations within 600 s")
        with exclusive_lock(result):
            columns = [to_numpy(result, [name])[:, 0] for name in COLUMNS[view.name]]
        del publisher
        return ended[0] - began[0], answer(columns)


def measure(task: Task, view: View, cycle: int) -> None:
    from deephaven.liveness_scope import liveness_scope

    with liveness_scope():
        batches = list(tables(task.arrays("ops", view.operations), cycle))
        (side,) = tables(task.arrays("side"), 1 << 30)
        found: list[int] = []

        def one() -> float:
            seconds, found[:] = run(view, batches, side)
            return seconds

        report(view, task.repeat(one), found, how=HOW, cycle=cycle, ends=ENDS)


if __name__ == "__main__":
    task = Task.given()
    server = start(task)
    for view in task.views:
        for cycle in view.cycles:
            measure(task, view, cycle)
