"""Tailrace on a peers' task: applies the same operations through the public API and times the epochs."""

from __future__ import annotations

import contextlib
import tempfile
from collections.abc import Iterator
from functools import partial

import pyarrow as pa
import pyarrow.compute as pc

import tailrace as tr
from tailrace_bench.measure import time_call
from tailrace_bench.peers.figures import Figure
from tailrace_bench.peers.operations import BLOCK, PUT
from tailrace_bench.peers.programs.shared import Task, View, answer_of, slices

HOW = "Tailrace"
WARMUP_OPERATIONS = 50_000  # applied to each view before its first measured run


@contextlib.contextmanager
def open_database(task: Task, view: View) -> Iterator[tr.Database]:
    """A durable store with the task's initial rows and an up-to-date view `v`."""
    with (
        tempfile.TemporaryDirectory(prefix="tailrace-bench-") as path,
        tr.open(f"{path}/store", create=True, max_lag=10**8) as db,
    ):
        db.sql("CREATE TABLE ops (id BIGINT PRIMARY KEY, grp BIGINT, amount BIGINT, other BIGINT)")
        db.sql("CREATE TABLE side (id BIGINT PRIMARY KEY, grp BIGINT, price BIGINT)")
        _load(db, "side", task.table("side"))
        _load(db, "ops", task.table("table"))
        db.sql(f"CREATE MATERIALIZED VIEW v AS {view.sql}")
        db.refresh()
        yield db


def _load(db: tr.Database, name: str, rows: pa.Table) -> None:
    for part in slices(len(rows), 200_000):
        db.table(name).put_many(rows.slice(part.start, part.stop - part.start))


def write_operations(db: tr.Database, ops: pa.Table) -> None:
    """Writes the operations in order, block by block. Keys are distinct within a block."""
    for part in slices(len(ops), BLOCK):
        block = ops.slice(part.start, part.stop - part.start)
        put = pc.equal(block["op"], PUT)
        db.table("ops").put_many(block.filter(put).drop_columns(["op"]))
        db.table("ops").delete_many(block.filter(pc.invert(put))["id"].to_pylist())


def _run_epochs(task: Task, view: View, ops: pa.Table, cycle: int) -> tuple[list[float], list[int]]:
    """Runs all epochs in a new store. Returns the seconds of each epoch and the view's answer."""
    with open_database(task, view) as db:
        seconds = []
        for part in slices(len(ops), cycle):
            write_operations(db, ops.slice(part.start, part.stop - part.start))
            seconds.append(time_call(db.refresh)[0])
        report = db.verify("v")
        if not report.ok:
            raise SystemExit(f"Tailrace's view {view.name} is wrong, so its figures do not count: {report}")
        return seconds, answer_of(db.view("v").scan())


def _require_answer(view: View, answer: list[int], expected: list[int]) -> None:
    if answer != expected:
        raise SystemExit(f"Tailrace's view {view.name} differs from the oracle's, so its figures do not count")


def measure(task: Task, view: View, expected: list[int]) -> Iterator[Figure]:
    """A figure for each cycle size, and one for all operations in one epoch."""
    ops = task.table("ops", view.operations)
    _run_epochs(task, view, ops.slice(0, WARMUP_OPERATIONS), BLOCK)
    for cycle in (view.operations, *reversed(view.cycles)):
        seconds = task.several(partial(_time_checked_run, task, view, ops, cycle, expected))
        yield Figure(view.name, HOW, cycle, "view", view.operations, tuple(seconds), tuple(expected))


def _time_checked_run(task: Task, view: View, ops: pa.Table, cycle: int, expected: list[int]) -> float:
    """Total seconds of the epochs of a run, after its answer was checked."""
    seconds, answer = _run_epochs(task, view, ops, cycle)
    _require_answer(view, answer, expected)
    return sum(seconds)


def time_refreshes(task: Task, view: View, expected: list[int]) -> list[float]:
    """Seconds of each epoch with one block of operations. The first epoch is a warm-up and not returned."""
    seconds, answer = _run_epochs(task, view, task.table("ops", view.operations), BLOCK)
    _require_answer(view, answer, expected)
    return seconds[1:]
