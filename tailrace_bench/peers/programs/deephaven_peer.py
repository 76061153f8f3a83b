"""Deephaven, embedded: each cycle of its update graph reads the next operations from a blink table.

It keeps the last row of each key and updates the view, a table in memory, in the same cycle.
"""

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


def start_server(task: Task) -> Server:
    server = Server(
        port=0,
        jvm_args=[
            "-Xmx6g",
            "-DPeriodicUpdateGraph.targetCycleDurationMillis=1",  # start the next cycle immediately
            f"-DPeriodicUpdateGraph.updateThreads={task.cores}",
            f"-Ddeephaven.dataDir={task.directory}/deephaven-data",
            f"-Ddeephaven.cacheDir={task.directory}/deephaven-cache",
        ],
        default_jvm_args=["-XX:+UseG1GC"],
    )
    server.start()
    return server


def make_batches(arrays: dict[str, np.ndarray], cycle: int) -> Iterator[object]:
    from deephaven import new_table
    from deephaven.column import byte_col, long_col

    for part in slices(len(arrays["id"]), cycle):
        columns = [long_col(name, values[part]) for name, values in arrays.items() if name != "op"]
        if "op" in arrays:
            columns.append(byte_col("op", arrays["op"][part]))
        yield new_table(columns)


def derive_view(view: View, live: object, side: object) -> object:
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
    remaining, began, ended, done = iter(batches), [0.0], [0.0], threading.Event()
    begin = threading.Event()

    def publish(publisher: object) -> None:
        """Called at the start of each cycle. A call without a remaining batch means that the last cycle has ended."""
        if not begin.is_set() or done.is_set():
            return
        if not began[0]:
            began[0] = time.perf_counter()
        batch = next(remaining, None)
        if batch is None:
            ended[0] = time.perf_counter()
            done.set()
        else:
            publisher.add(batch)

    with liveness_scope():
        blink, publisher = table_publisher("ops", definition, on_flush_callback=publish)
        live = blink.last_by("id").where("op == 1")
        result = derive_view(view, live, side)
        begin.set()
        if not done.wait(600):
            raise SystemExit("Deephaven did not process all operations within 600 s")
        with exclusive_lock(result):
            columns = [to_numpy(result, [name])[:, 0] for name in COLUMNS[view.name]]
        del publisher
        return ended[0] - began[0], answer(columns)


def measure(task: Task, view: View, cycle: int) -> None:
    from deephaven.liveness_scope import liveness_scope

    with liveness_scope():
        batches = list(make_batches(task.arrays("ops", view.operations), cycle))
        (side,) = make_batches(task.arrays("side"), 1 << 30)
        view_answer: list[int] = []

        def run_once() -> float:
            seconds, view_answer[:] = run(view, batches, side)
            return seconds

        report(view, task.repeat(run_once), view_answer, how=HOW, cycle=cycle, ends=ENDS)


if __name__ == "__main__":
    task = Task.from_command_line()
    server = start_server(task)
    for view in task.views:
        for cycle in view.cycles:
            measure(task, view, cycle)
