"""Steps that the experiments share: create views, time epochs, and verify the views before figures count."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np

import tailrace as tr
from tailrace_bench.measure import time_call
from tailrace_bench.results import Line, Point, Spread, Whose

WARMUP_EPOCHS = 2  # not counted: Java still compiles the hot code
VERIFIED_VIEWS = 8  # random sample of the views of an experiment


class WrongView(Exception):
    """A view differs from its recomputation, so its figures do not count."""


@dataclass(frozen=True)
class RefreshTiming:
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


def create_view(db: tr.Database, name: str, sql: str) -> None:
    db.sql(f"CREATE MATERIALIZED VIEW {name} AS {sql}")


def time_refresh(db: tr.Database) -> RefreshTiming:
    seconds, epoch = time_call(db.refresh)
    return RefreshTiming(seconds, epoch.operations, epoch.view_rows)


def time_epochs(
    db: tr.Database, write: Callable[[], object], repeats: int, warmup: int = WARMUP_EPOCHS
) -> list[RefreshTiming]:
    """Calls `write` and times a refresh after it, `warmup + repeats` times. Warm-up epochs are not returned."""
    timings = []
    for _ in range(warmup + repeats):
        write()
        timings.append(time_refresh(db))
    return timings[warmup:]


def verify_views(db: tr.Database, sample: int = VERIFIED_VIEWS) -> None:
    """Verifies a random sample of the views. Raises WrongView if one is wrong."""
    names = db.views()
    for name in np.random.default_rng(0).choice(names, min(sample, len(names)), replace=False).tolist():
        report = db.verify(name)
        if not report.ok:
            raise WrongView(f"view {name} is wrong, so its figures do not count: {report}")


def make_line(name: str, whose: Whose, points: Sequence[tuple[float | str, Sequence[float]]], note: str = "") -> Line:
    """A line of repeated measurements; an x without measurements gets no point."""
    return Line(name, whose, tuple(Point(x, Spread.of(values)) for x, values in points if values), note)


def median(values: Sequence[float]) -> float:
    return Spread.of(values).median


def short_count(count: int) -> str:
    """1k, 150k, 1M: the papers' notation."""
    for unit, letter in ((1_000_000, "M"), (1_000, "k")):
        if count >= unit and count % (unit // 10) == 0:
            return f"{count / unit:g}{letter}"
    return str(count)
