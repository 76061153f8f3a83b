"""Shared by the peers' programs: reads the task and its operations, computes the answer and reports figures.

A program runs in the peer's own venv. It may import only this module, numpy, pyarrow and the peer.
"""

from __future__ import annotations

import json
import os
import signal
import sys
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np
import pyarrow as pa

FIGURE = "figure"  # prefix of a report line; peers print other lines too
NO_REPEAT_SECONDS = 10.0  # a run this long is not repeated
NO_WARMUP_SECONDS = 30.0  # a first run this long counts, because it warms itself up
VIEWS = {
    "sum": "SELECT grp, SUM(amount) AS total, COUNT(*) AS n FROM ops GROUP BY grp",
    "extremes": "SELECT grp, MIN(other) AS lo, MAX(other) AS hi FROM ops GROUP BY grp",
    "filter": "SELECT id, grp, amount FROM ops WHERE amount < 500",
    "join": "SELECT o.id, s.id AS side, o.amount, s.price FROM ops o JOIN side s ON o.grp = s.grp",
}
COLUMNS = {
    "sum": ("grp", "total", "n"),
    "extremes": ("grp", "lo", "hi"),
    "filter": ("id", "grp", "amount"),
    "join": ("id", "side", "amount", "price"),
}


@dataclass(frozen=True)
class View:
    """A view to maintain over the first `operations` operations, which make `changes` changes."""

    name: str
    operations: int
    changes: int
    cycles: tuple[int, ...]  # operations after which the view must be current

    @property
    def sql(self) -> str:
        return VIEWS[self.name]


@dataclass(frozen=True)
class Task:
    """The views to measure, and how often to measure each after a warm-up run."""

    directory: Path
    views: tuple[View, ...]
    repeats: int
    cores: int
    thorough: bool  # False: only the most important variants

    @classmethod
    def from_command_line(cls) -> Task:
        """The task in the directory of the first argument, with only the view named by the second."""
        if os.getpgrp() == os.getpid():  # started by a benchmark, in its own process group
            threading.Thread(target=_exit_with, args=(os.getppid(),), daemon=True).start()
        _, directory, name = sys.argv
        task = cls.read(Path(directory))
        return replace(task, views=tuple(view for view in task.views if view.name == name))

    @classmethod
    def read(cls, directory: Path) -> Task:
        document = json.loads((directory / "task.json").read_text())
        views = tuple(View(v["name"], v["operations"], v["changes"], tuple(v["cycles"])) for v in document["views"])
        return cls(directory, views, document["repeats"], document["cores"], document["thorough"])

    def table(self, name: str, rows: int | None = None) -> pa.Table:
        with pa.memory_map(str(self.directory / f"{name}.arrow")) as source:
            table = pa.ipc.open_file(source).read_all()
        return table if rows is None else table.slice(0, rows)

    def arrays(self, name: str, rows: int | None = None) -> dict[str, np.ndarray]:
        """Columns as arrays in memory, not mapped from the file."""
        table = self.table(name, rows)
        return {column: table[column].to_numpy().copy() for column in table.column_names}

    def repeat(self, run: Callable[[], float]) -> list[float]:
        """Seconds of each run, after a warm-up run. A long first run is the only one."""
        first = run()
        return [first] if first >= NO_WARMUP_SECONDS else self.several(run)

    def several(self, run: Callable[[], float]) -> list[float]:
        """Seconds of each run. A long run is not repeated."""
        seconds = [run()]
        while len(seconds) < self.repeats and seconds[-1] < NO_REPEAT_SECONDS:
            seconds.append(run())
        return seconds


def _exit_with(parent: int) -> None:
    """Kills this program and its children once the parent process is gone."""
    while os.getppid() == parent:
        time.sleep(1)
    os.killpg(os.getpgrp(), signal.SIGKILL)


def slices(count: int, size: int) -> Iterator[slice]:
    for start in range(0, count, size):
        yield slice(start, min(start + size, count))


def answer(columns: Sequence[np.ndarray], weights: np.ndarray | None = None) -> list[int]:
    """A checksum of a view's rows that does not depend on their order: count, sums, and sums of products with the key.

    Each number is linear in the rows, so a changelog with weights 1 and -1 has the same answer as its final rows.
    """
    columns64 = [np.asarray(column, np.int64) for column in columns]
    each = np.ones(len(columns64[0]), np.int64) if weights is None else weights
    return [int((each * part).sum()) for part in (1, *columns64, *(columns64[0] * column for column in columns64[1:]))]


def answer_of(table: pa.Table, weights: np.ndarray | None = None) -> list[int]:
    return answer([table.column(i).to_numpy() for i in range(table.num_columns)], weights)


def report(
    view: View,
    seconds: Sequence[float],
    view_answer: Sequence[int],
    *,
    how: str,
    cycle: int,
    ends: str,
    operations: int | None = None,
) -> None:
    """Prints one figure: `operations` (default: all of the view's) took `seconds` and led to `view_answer`.

    `ends` is the output of the run: a readable `view`, a file of `changes`, or `nothing`.
    """
    line = {
        "view": view.name,
        "how": how,
        "cycle": cycle,
        "ends": ends,
        "operations": view.operations if operations is None else operations,
        "seconds": list(seconds),
        "answer": list(view_answer),
    }
    print(f"{FIGURE} {json.dumps(line)}", flush=True)


def time_call(work: Callable[[], object]) -> float:
    began = time.perf_counter()
    work()
    return time.perf_counter() - began
