"""What is asked of Tailrace and of every peer: views over operations, and the answers they must have."""

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
    """Files for a program: the operations, and of each view its name, how many operations, and after how many of them
    it must be current."""
    operations.write(directory)
    made = [
        View(name, count, operations.changes_after[-(-count // BLOCK)], tuple(cycles)) for name, count, cycles in views
    ]
    task = {"views": [dataclasses.asdict(v) for v in made], "repeats": repeats, "cores": CORES, "thorough": thorough}
    (directory / "task.json").write_text(json.dumps(task))
    return Task.read(directory)


def expected(operations: Operations, view: View) -> list[int]:
    """The answer, computed by Arrow from the rows there are in the end."""
    rows = final_rows(operations, view.operations)
    if view.name == "sum":
        found = rows.group_by("grp").aggregate([("amount", "sum"), ([], "count_all")])
        return answer_of(found.select(["grp", "amount_sum", "count_all"]))
    if view.name == "extremes":
        found = rows.group_by("grp").aggregate([("other", "min"), ("other", "max")])
        return answer_of(found.select(["grp", "other_min", "other_max"]))
    if view.name == "filter":
        return answer_of(rows.filter(pc.less(rows["amount"], 500)).select(["id", "grp", "amount"]))
    return answer_of(_joined(rows, operations.side))


def _joined(rows: pa.Table, side: pa.Table) -> pa.Table:
    both = rows.join(side.rename_columns(["side", "grp", "price"]), "grp", join_type="inner")
    return both.select(["id", "side", "amount", "price"])
