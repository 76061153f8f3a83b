"""Aggregation: SUM by number of groups, MIN and MAX by distribution of values, five functions in one view."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from tailrace_bench import bounds, workloads
from tailrace_bench.harness import (
    WARMUP_EPOCHS,
    create_view,
    make_line,
    median,
    short_count,
    time_refresh,
    verify_views,
)
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
    """Operations per second of each epoch and of a scan of the same log, and the peak memory in GiB."""

    epochs: list[float]
    scans: list[float]
    memory: float

    @property
    def of_scan(self) -> float:
        """Median of the per-epoch ratios."""
        return median([ours / scan for ours, scan in zip(self.epochs, self.scans, strict=True)])


def _measure(
    size: Size, operations: int, seed: int, sql: str, column: str, keys: int, groups: int, other: str = "uniform"
) -> Rates:
    """Measures epochs of random operations on one view."""
    rng, epochs, scans, peak = np.random.default_rng(seed), [], [], 0
    with workloads.temporary_store() as db:
        create_view(db, "v", sql)
        for run in range(WARMUP_EPOCHS + size.repeats):
            done = workloads.apply_operations(db, rng, operations, keys, groups=groups, other=other)
            scan = bounds.time_log_scan(db, "ops", [column])
            with Memory() as memory:
                epoch = time_refresh(db)
            if run >= WARMUP_EPOCHS:
                epochs.append(epoch.rate)
                scans.append(done / scan)
                peak = max(peak, memory.peak)
        verify_views(db)
    return Rates(epochs, scans, peak / 2**30)


def _result(
    name: str,
    title: str,
    question: str,
    x: str,
    rates_by_x: Sequence[tuple[float | str, Rates]],
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
            make_line("Tailrace", Whose.TAILRACE, [(x, rates.epochs) for x, rates in rates_by_x]),
            make_line(
                bounds.LOG_SCAN,
                Whose.LIMIT,
                [(x, rates.scans) for x, rates in rates_by_x],
                "reads the log and sums one column",
            ),
        ),
        targets=tuple(targets),
        notes=(
            "Share of the log-scan limit, median of the per-epoch ratios: "
            + ", ".join(f"{x}: {rates.of_scan:.2f}" for x, rates in rates_by_x)
            + ".",
            f"Peak memory of all processes together: {max(rates.memory for _, rates in rates_by_x):.1f} GiB.",
        ),
        log_x=log_x,
    )


def sums(size: Size) -> Result:
    """SUM and COUNT, by the number of groups."""
    rates_by_x = [
        (groups, _measure(size, size.large_epoch, 1, SUM, "amount", size.keys, groups)) for groups in size.group_counts
    ]
    goal = Target("SUM and COUNT, 10k groups: share of the log-scan limit", 0.6, dict(rates_by_x)[10_000].of_scan)
    question = (
        "How many operations per second can a SUM and COUNT view apply, by its number of groups? "
        f"Each epoch has {short_count(size.large_epoch)} operations on {short_count(size.keys)} keys (5% deletes)."
    )
    return _result("sums", "SUM and COUNT", question, "groups (rows of the view)", rates_by_x, [goal], log_x=True)


def extremes(size: Size) -> Result:
    """MIN and MAX, by the distribution of the values."""
    rates_by_x = [
        (values, _measure(size, size.medium_epoch, 2, EXTREMES, "other", size.keys, 10_000, values))
        for values in ("uniform", "normal", "zipf")
    ]
    question = (
        "How many operations per second can a MIN and MAX view of 10k groups apply, by the distribution of the values? "
        f"Each epoch has {short_count(size.medium_epoch)} operations on {short_count(size.keys)} keys (5% deletes)."
    )
    return _result("extremes", "MIN and MAX", question, "distribution of values", rates_by_x)


def aggregation(size: Size) -> Result:
    """Five aggregate functions in one view, by the number of table keys and groups."""
    rates_by_x = [
        (
            f"{short_count(keys)}:{short_count(groups)}",
            _measure(size, size.medium_epoch, 3, FIVE, "amount", keys, groups),
        )
        for keys, groups in size.keys_and_groups
    ]
    question = (
        "How many operations per second can a view with SUM, MIN, MAX, AVG and COUNT apply, by the number of table "
        f"keys and groups? Each epoch has {short_count(size.medium_epoch)} operations."
    )
    return _result("aggregation", "Five aggregates in one view", question, "keys : groups", rates_by_x)
