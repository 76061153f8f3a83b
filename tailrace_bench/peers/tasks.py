"""Tasks for Tailrace and every peer: views over operations, and the expected answers."""

from __future__ import annotations

import dataclasses
import json
import os
from collections.abc import Sequence
from pathlib import Path

import pyarrow as pa
import pyarrow.compute as pc

from tailrace_bench.peers.operations import BLOCK, Operations, final_rows
from tailrace_bench.peers.programs.shared import Task, View, answer_of

CORES = min(2, os.cpu_count() or 1)


def write_task(
    directory: Path,
    operations: Operations,
    views: Sequence[tuple[str, int, Sequence[int]]],
    repeats: int,
    thorough: bool,
) -> Task:
    """Writes a task's files to `directory`. A view is (name, number of operations, cycle sizes)."""
    operations.write(directory)
    view_specs = [
        View(name, count, operations.changes_after[-(-count // BLOCK)], tuple(cycles)) for name, count, cycles in views
    ]
    task = {
        "views": [dataclasses.asdict(v) for v in view_specs],
        "repeats": repeats,
        "cores": CORES,
        "thorough": thorough,
    }
    (directory / "task.json").write_text(json.dumps(task))
    return Task.read(directory)


def expected_answer(operations: Operations, view: View) -> list[int]:
    """The view's answer, computed by Arrow from the final rows."""
    rows = final_rows(operations, view.operations)
    if view.name == "sum":
        groups = rows.group_by("grp").aggregate([("amount", "sum"), ([], "count_all")])
        return answer_of(groups.select(["grp", "amount_sum", "count_all"]))
    if view.name == "extremes":
        groups = rows.group_by("grp").aggregate([("other", "min"), ("other", "max")])
        return answer_of(groups.select(["grp", "other_min", "other_max"]))
    if view.name == "filter":
        return answer_of(rows.filter(pc.less(rows["amount"], 500)).select(["id", "grp", "amount"]))
    return answer_of(_join_side(rows, operations.side))


def _join_side(rows: pa.Table, side: pa.Table) -> pa.Table:
    both = rows.join(side.rename_columns(["side", "grp", "price"]), "grp", join_type="inner")
    return both.select(["id", "side", "amount", "price"])
