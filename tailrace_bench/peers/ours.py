"""Tailrace on a peers' task: the same operations through its public interface, and the time of its epochs."""

from __future__ import annotations

import contextlib
import tempfile
from collections.abc import Iterator
from functools import partial

import pyarrow as pa
import pyarrow.compute as pc

import tailrace as tr
from tailrace_bench.measure import timed
from tailrace_bench.peers.figures import Figure
from tailrace_bench.peers.operations import BLOCK, PUT
from tailrace_bench.peers.programs.shared import Task, View, answer_of, slices

HOW = "Tailrace"
WARM = 50_000  # operations before the first run of a view that counts


@contextlib.contextmanager
def database(task: Task, view: View) -> Iterator[tr.Database]:
    """A durable store with the rows there were before, and the view current."""
    with tempfile.TemporaryDirectory(prefix="tailrace-bench-") as path, tr.open(f"{path}/store", max_lag=10**8) as db:
        db.sql("CREATE TABLE ops (id BIGINT PRIMARY KEY, grp BIGINT, amount BIGINT, other BIGINT)")
        db.sql("CREATE TABLE side (id BIGINT PRIMARY KEY, grp BIGINT, price BIGINT)")
        _put(db, "side", task.table("side"))
        _put(db, "ops", task.table("table"))
        db.sql(f"CREATE MATERIALIZED VIEW v AS {view.sql}")
        db.refresh()
        yield db


def _put(db: tr.Database, name: str, rows: pa.Table) -> None:
    for part in slices(len(rows), 200_000):
        db.table(name).put_many(rows.slice(part.start, part.stop - part.start))


def write(db: tr.Database, ops: pa.Table) -> None:
    """Operations in order, a block at a time; within a block no key comes twice."""
    for part in slices(len(ops), BLOCK):
        block = ops.slice(part.start, part.stop - part.start)
        put = pc.equal(block["op"], PUT)
        db.table("ops").put_many(block.filter(put).drop_columns(["op"]))
        db.table("ops").delete_many(block.filter(pc.invert(put))["id"].to_pylist())


def _run(task: Task, view: View, ops: pa.Table, cycle: int) -> tuple[list[float], list[int]]:
    """Seconds of each epoch, and the view's answer."""
    with database(task, view) as db:
        seconds = []
        for part in slices(len(ops), cycle):
            write(db, ops.slice(part.start, part.stop - part.start))
            seconds.append(timed(db.refresh)[0])
        report = db.verify("v")
        if not report.ok:
            raise SystemExit(f"Tailrace's view is wrong, so its figures do not count: {report}")
        return seconds, answer_of(db.view("v").scan())


def _right(view: View, found: list[int], expected: list[int]) -> None:
    if found != expected:
        raise SystemExit(f"Tailrace's view {view.name} differs from the oracle's, so its figures do not count")


def measure(task: Task, view: View, expected: list[int]) -> Iterator[Figure]:
    """A figure for each cycle, and one for all operations in one epoch."""
    ops = task.table("ops", view.operations)
    _run(task, view, ops.slice(0, WARM), BLOCK)
    for cycle in (view.operations, *reversed(view.cycles)):
        taken = task.several(partial(_checked, task, view, ops, cycle, expected))
        yield Figure(view.name, HOW, cycle, "view", view.operations, tuple(taken), tuple(expected))


def _checked(task: Task, view: View, ops: pa.Table, cycle: int, expected: list[int]) -> float:
    """Seconds of all epochs of a run whose answer is right."""
    seconds, found = _run(task, view, ops, cycle)
    _right(view, found, expected)
    return sum(seconds)


def refreshes(task: Task, view: View, expected: list[int]) -> list[float]:
    """Seconds of each epoch of a block of operations after the first, which warms up."""
    seconds, found = _run(task, view, task.table("ops", view.operations), BLOCK)
    _right(view, found, expected)
    return seconds[1:]
