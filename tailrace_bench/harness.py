"""What every experiment does: views, epochs that are timed, and the proof that the views are right."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np

import tailrace as tr
from tailrace_bench.measure import timed
from tailrace_bench.results import Line, Point, Spread, Whose

WARM = 2  # epochs that do not count: Java compiles what runs often
SAMPLE = 8  # views that are verified where there are many


class Wrong(Exception):
    """A view was not what it should be: its figures do not count."""


@dataclass(frozen=True)
class Measured:
    """One refresh."""

    seconds: float
    operations: int
    view_rows: int

    @property
    def rate(self) -> float:
        """Operations per second."""
        return self.operations / self.seconds

    @property
    def row_rate(self) -> float:
        """View rows per second."""
        return self.view_rows / self.seconds


def create(db: tr.Database, name: str, sql: str) -> None:
    db.sql(f"CREATE MATERIALIZED VIEW {name} AS {sql}")


def refreshed(db: tr.Database) -> Measured:
    seconds, epoch = timed(db.refresh)
    return Measured(seconds, epoch.operations, epoch.view_rows)


def epochs(db: tr.Database, write: Callable[[], object], repeats: int, warm: int = WARM) -> list[Measured]:
    """An epoch after each of so many writes, those to get warm left out."""
    measured = []
    for _ in range(warm + repeats):
        write()
        measured.append(refreshed(db))
    return measured[warm:]


def check(db: tr.Database, sample: int = SAMPLE) -> None:
    """Verify the views, at random so many of them."""
    names = db.views()
    for name in np.random.default_rng(0).choice(names, min(sample, len(names)), replace=False).tolist():
        report = db.verify(name)
        if not report.ok:
            raise Wrong(f"view {name} is wrong, so its figures do not count: {report}")


def line(name: str, whose: Whose, points: Sequence[tuple[float | str, Sequence[float]]], note: str = "") -> Line:
    """A line of repeated measurements."""
    return Line(name, whose, tuple(Point(x, Spread.of(values)) for x, values in points if values), note)


def median(values: Sequence[float]) -> float:
    return Spread.of(values).median


def short(count: int) -> str:
    """1k, 150k, 1M: as the papers write numbers."""
    for unit, letter in ((1_000_000, "M"), (1_000, "k")):
        if count >= unit and count % (unit // 10) == 0:
            return f"{count / unit:g}{letter}"
    return str(count)
