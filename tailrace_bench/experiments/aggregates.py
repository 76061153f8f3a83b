"""Aggregation: sums by the size of the view, extremes by the distribution of values, five functions at once."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from tailrace_bench import bounds, workloads
from tailrace_bench.harness import WARM, check, create, line, median, refreshed, short
from tailrace_bench.measure import Memory
from tailrace_bench.results import Result, Target, Whose
from tailrace_bench.size import Size

SUM = "SELECT grp, SUM(amount) AS total, COUNT(*) AS n FROM ops GROUP BY grp"
EXTREMES = "SELECT grp, MIN(other) AS lo, MAX(other) AS hi FROM ops GROUP BY grp"
FIVE = (
    "SELECT grp, SUM(amount) AS total, MIN(amount) AS lo, MAX(amount) AS hi, AVG(amount) AS mean, COUNT(*) AS n"
    " FROM ops GROUP BY grp"
)
RATE = "base operations per second"


@dataclass(frozen=True)
class Rates:
    """Operations per second of epochs, and of scanning the same log; and the most memory that was held."""

    epochs: list[float]
    scans: list[float]
    memory: float

    @property
    def of_scan(self) -> float:
        return median([ours / scan for ours, scan in zip(self.epochs, self.scans, strict=True)])


def _measured(
    size: Size, operations: int, seed: int, sql: str, column: str, keys: int, groups: int, other: str = "uniform"
) -> Rates:
    """Epochs of random operations on one view."""
    rng, epochs, scans, peak = np.random.default_rng(seed), [], [], 0
    with workloads.store() as db:
        create(db, "v", sql)
        for run in range(WARM + size.repeats):
            done = workloads.operate(db, rng, operations, keys, groups=groups, other=other)
            scan = bounds.scan_log(db, "ops", [column])
            with Memory() as memory:
                epoch = refreshed(db)
            if run >= WARM:
                epochs.append(epoch.rate)
                scans.append(done / scan)
                peak = max(peak, memory.peak)
        check(db)
    return Rates(epochs, scans, peak / 2**30)


def _result(
    name: str,
    title: str,
    question: str,
    x: str,
    found: Sequence[tuple[float | str, Rates]],
    targets: Sequence[Target] = (),
    log_x: bool = False,
) -> Result:
    return Result(
        name=name,
        title=title,
        question=question,
        x=x,
        y=RATE,
        lines=(
            line("Tailrace", Whose.TAILRACE, [(at, rates.epochs) for at, rates in found]),
            line(
                bounds.SCAN, Whose.LIMIT, [(at, rates.scans) for at, rates in found], "reads the log and sums a column"
            ),
        ),
        targets=tuple(targets),
        notes=(
            "Share of the log scan: " + ", ".join(f"{at}: {rates.of_scan:.2f}" for at, rates in found) + ".",
            f"All processes together held at most {max(rates.memory for _, rates in found):.1f} GiB.",
        ),
        log_x=log_x,
    )


def sums(size: Size) -> Result:
    """SUM and COUNT by group, by the number of groups."""
    found = [(groups, _measured(size, size.operations, 1, SUM, "amount", size.keys, groups)) for groups in size.groups]
    goal = Target("SUM and COUNT, 10k groups: share of the log-scan limit", 0.6, dict(found)[10_000].of_scan)
    question = (
        f"How many operations a second does a SUM and COUNT view take on, in epochs of {short(size.operations)} "
        f"operations on {short(size.keys)} keys (5% deletes), by the number of its groups?"
    )
    return _result("sums", "Sums", question, "rows of the view (groups)", found, [goal], log_x=True)


def extremes(size: Size) -> Result:
    """MIN and MAX by group, by the distribution of the values."""
    found = [
        (values, _measured(size, size.usual, 2, EXTREMES, "other", size.keys, 10_000, values))
        for values in ("uniform", "normal", "zipf")
    ]
    question = (
        f"How many operations a second does a MIN and MAX view of 10k groups take on, in epochs of "
        f"{short(size.usual)} operations on {short(size.keys)} keys (5% deletes), by the distribution of values?"
    )
    return _result("extremes", "Least and greatest", question, "distribution of values", found)


def aggregation(size: Size) -> Result:
    """Five functions at once, by how many keys are grouped to how many groups."""
    found = [
        (f"{short(keys)}:{short(groups)}", _measured(size, size.usual, 3, FIVE, "amount", keys, groups))
        for keys, groups in size.ratios
    ]
    question = (
        f"How many operations a second does a view of SUM, MIN, MAX, AVG and COUNT take on, in epochs of "
        f"{short(size.usual)} operations, by keys of the table and groups of the view?"
    )
    return _result("aggregation", "Five aggregates at once", question, "keys : groups", found)
