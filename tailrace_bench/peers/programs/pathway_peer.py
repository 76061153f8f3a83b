"""Pathway: a connector feeds upserts and deletes by key and commits after each cycle. Changes go to a CSV file."""

from __future__ import annotations

import os
import tempfile
from pathlib import Path

from shared import COLUMNS, Task, View, answer, report, slices, time_call

HOW = "Pathway"
ENDS = "changes"
TASK = Task.from_command_line()
os.environ["PATHWAY_THREADS"] = str(TASK.cores)  # Pathway reads it at import

import pathway as pw  # noqa: E402
import pyarrow.csv  # noqa: E402
from pathway.internals.parse_graph import G  # noqa: E402


class Row(pw.Schema):
    key: int = pw.column_definition(primary_key=True)
    grp: int
    amount: int
    other: int


class Side(pw.Schema):
    side: int = pw.column_definition(primary_key=True)
    grp: int
    price: int


class Operations(pw.io.python.ConnectorSubject):
    """Operations as tuples (op, id, grp, amount, other), a list per cycle."""

    def __init__(self, cycles: list[list[tuple[int, ...]]]) -> None:
        super().__init__(session_type="upsert")
        self._cycles = cycles

    def run(self) -> None:
        for cycle in self._cycles:
            self._disable_commits()
            for op, key, grp, amount, other in cycle:
                if op == 1:
                    self.next(key=key, grp=grp, amount=amount, other=other)
                else:
                    self.delete(key=key, grp=grp, amount=amount, other=other)
            self._enable_commits()
            self.commit()


def derive_view(view: View, ops: pw.Table, side: pw.Table | None) -> pw.Table:
    if view.name == "sum":
        return ops.groupby(ops.grp).reduce(ops.grp, total=pw.reducers.sum(ops.amount), n=pw.reducers.count())
    if view.name == "extremes":
        return ops.groupby(ops.grp).reduce(ops.grp, lo=pw.reducers.min(ops.other), hi=pw.reducers.max(ops.other))
    if view.name == "filter":
        return ops.filter(ops.amount < 500).select(pw.this.key, pw.this.grp, pw.this.amount)
    return ops.join(side, ops.grp == side.grp).select(ops.key, side.side, ops.amount, side.price)


def read_side(task: Task, path: str) -> pw.Table:
    pyarrow.csv.write_csv(task.table("side").rename_columns(["side", "grp", "price"]), path)
    return pw.io.csv.read(path, schema=Side, mode="static")


def changes_in(path: Path, view: View) -> list[int]:
    table = pyarrow.csv.read_csv(path)
    names = ("key" if name == "id" else name for name in COLUMNS[view.name])  # Pathway reserves the name id
    return answer([table[name].to_numpy() for name in names], table["diff"].to_numpy())


def measure(task: Task, view: View, cycle: int) -> None:
    columns = list(task.arrays("ops", view.operations).values())
    parts = list(slices(view.operations, cycle))
    cycles = [list(zip(*(column[part].tolist() for column in columns), strict=True)) for part in parts]
    view_answer: list[int] = []

    def run() -> float:
        G.clear()
        with tempfile.TemporaryDirectory() as scratch:
            ops = pw.io.python.read(Operations(cycles), schema=Row, autocommit_duration_ms=None)
            side = read_side(task, f"{scratch}/side.csv") if view.name == "join" else None
            pw.io.csv.write(derive_view(view, ops, side), f"{scratch}/changes.csv")
            seconds = time_call(lambda: pw.run(monitoring_level=pw.MonitoringLevel.NONE))
            view_answer[:] = changes_in(Path(scratch) / "changes.csv", view)
        return seconds

    report(view, task.repeat(run), view_answer, how=HOW, cycle=cycle, ends=ENDS)


if __name__ == "__main__":
    for view in TASK.views:
        for cycle in view.cycles:
            measure(TASK, view, cycle)
