"""What every peer's program shares: its task, the operations, the answer and how it is reported.

A program runs under the peer's own Python: it may import this, numpy, pyarrow and the peer, and nothing else.
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

FIGURE = "figure"  # begins a line that reports one; peers print others
LONG = 10.0  # seconds of a run that is not repeated
WARM = 30.0  # seconds after which a first run needs no other to get warm
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
    """A view to maintain over the first `operations`, which are `changes` changes."""

    name: str
    operations: int
    changes: int
    cycles: tuple[int, ...]  # operations after which the view must be current

    @property
    def sql(self) -> str:
        return VIEWS[self.name]


@dataclass(frozen=True)
class Task:
    """What a program is asked: views, and how often each is measured after a run that warms up."""

    directory: Path
    views: tuple[View, ...]
    repeats: int
    cores: int
    thorough: bool  # else only the ways that matter most

    @classmethod
    def given(cls) -> Task:
        """What the command line says: the task's directory, and the name of the one view that is asked for."""
        if os.getpgrp() == os.getpid():  # started by a benchmark, with a group of its own
            threading.Thread(target=_end_with, args=(os.getppid(),), daemon=True).start()
        _, directory, name = sys.argv
        task = cls.read(Path(directory))
        return replace(task, views=tuple(view for view in task.views if view.name == name))

    @classmethod
    def read(cls, directory: Path) -> Task:
        found = json.loads((directory / "task.json").read_text())
        views = tuple(View(v["name"], v["operations"], v["changes"], tuple(v["cycles"])) for v in found["views"])
        return cls(directory, views, found["repeats"], found["cores"], found["thorough"])

    def table(self, name: str, rows: int | None = None) -> pa.Table:
        with pa.memory_map(str(self.directory / f"{name}.arrow")) as source:
            table = pa.ipc.open_file(source).read_all()
        return table if rows is None else table.slice(0, rows)

    def arrays(self, name: str, rows: int | None = None) -> dict[str, np.ndarray]:
        """Columns as arrays of their own, not mapped from the file."""
        table = self.table(name, rows)
        return {column: table[column].to_numpy().copy() for column in table.column_names}

    def repeat(self, run: Callable[[], float]) -> list[float]:
        """Seconds of each run, after one that warms up."""
        first = run()
        return [first] if first >= WARM else self.several(run)

    def several(self, run: Callable[[], float]) -> list[float]:
        """Seconds of each run; there is only one of runs that take long."""
        taken = [run()]
        while len(taken) < self.repeats and taken[-1] < LONG:
            taken.append(run())
        return taken


def _end_with(parent: int) -> None:
    """End this program and all it started once the benchmark that started it is gone."""
    while os.getppid() == parent:
        time.sleep(1)
    os.killpg(os.getpgrp(), signal.SIGKILL)


def slices(count: int, size: int) -> Iterator[slice]:
    for start in range(0, count, size):
        yield slice(start, min(start + size, count))


def answer(columns: Sequence[np.ndarray], weights: np.ndarray | None = None) -> list[int]:
    """A view's rows as a few numbers, whatever their order: count, sums, and sums of products with the key.

    Each is linear in the rows, so the changes that lead to them (weights 1 and -1) have the same answer.
    """
    wide = [np.asarray(column, np.int64) for column in columns]
    each = np.ones(len(wide[0]), np.int64) if weights is None else weights
    return [int((each * part).sum()) for part in (1, *wide, *(wide[0] * column for column in wide[1:]))]


def answer_of(table: pa.Table, weights: np.ndarray | None = None) -> list[int]:
    return answer([table.column(i).to_numpy() for i in range(table.num_columns)], weights)


def report(
    view: View,
    seconds: Sequence[float],
    found: Sequence[int],
    *,
    how: str,
    cycle: int,
    ends: str,
    operations: int | None = None,
) -> None:
    """Say one figure: `operations` (all of the view's, unless told) took `seconds`, and the view's answer was `found`.

    `ends` is what there is then: a readable `view`, a file of `changes`, or `nothing`.
    """
    line = {
        "view": view.name,
        "how": how,
        "cycle": cycle,
        "ends": ends,
        "operations": view.operations if operations is None else operations,
        "seconds": list(seconds),
        "answer": list(found),
    }
    print(f"{FIGURE} {json.dumps(line)}", flush=True)


def timed(work: Callable[[], object]) -> float:
    began = time.perf_counter()
    work()
    return time.perf_counter() - began
