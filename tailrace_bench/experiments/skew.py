"""Skewed keys: epochs whose keys follow a Zipf distribution, compared with uniform keys."""

from __future__ import annotations

import numpy as np

import tailrace as tr
from tailrace_bench import bounds, workloads
from tailrace_bench.experiments.aggregates import EXTREMES, RATE, SUM
from tailrace_bench.harness import WARMUP_EPOCHS, create_view, make_line, short_count, time_refresh, verify_views
from tailrace_bench.results import Result, Whose
from tailrace_bench.size import Size

DRAWS_PER_TRANSACTION = 1_000  # a key drawn twice in a transaction is written once
DIVISOR = 5  # fewer operations than other benchmarks, because small transactions are slow


def skew(size: Size) -> Result:
    """Rates of SUM and MIN/MAX views, by the Zipf exponent of the keys."""
    operations = size.medium_epoch // DIVISOR
    views = {"SUM, COUNT": SUM, "MIN, MAX": EXTREMES}
    rates_by_kind: dict[str, list[tuple[float, list[float]]]] = {kind: [] for kind in views}
    scans: list[tuple[float, list[float]]] = []
    for exponent in size.zipf_exponents:
        for kind, sql in views.items():
            rates, limits = _measure(size, sql, exponent, operations)
            rates_by_kind[kind].append((exponent, rates))
            if kind == "SUM, COUNT":
                scans.append((exponent, limits))
    return Result(
        name="skew",
        title="Uniform versus Zipf-distributed keys",
        question="How many operations per second can a view apply, by the exponent of the keys' Zipf distribution (0 "
        f"is uniform)? Each epoch has {short_count(operations)} operations on {short_count(size.keys)} keys.",
        x="Zipf exponent",
        y=RATE,
        lines=(
            *(make_line(kind, Whose.TAILRACE, points) for kind, points in rates_by_kind.items()),
            make_line(bounds.LOG_SCAN, Whose.LIMIT, scans, "reads the log and sums one column"),
        ),
    )


def _measure(size: Size, sql: str, exponent: float, operations: int) -> tuple[list[float], list[float]]:
    rng = np.random.default_rng(15)
    weights = 1 / np.arange(1, size.keys + 1) ** exponent
    cumulative = np.cumsum(weights / weights.sum())
    ids = rng.permutation(size.keys)
    rates, scans = [], []
    with workloads.temporary_store() as db:
        create_view(db, "v", sql)
        for run in range(WARMUP_EPOCHS + size.repeats):
            done = _apply_operations(db, rng, cumulative, ids, operations)
            scan = bounds.time_log_scan(db, "ops")
            epoch = time_refresh(db)
            if run >= WARMUP_EPOCHS:
                rates.append(epoch.rate)
                scans.append(done / scan)
        verify_views(db)
    return rates, scans


def _apply_operations(
    db: tr.Database, rng: np.random.Generator, cumulative: np.ndarray, ids: np.ndarray, operations: int
) -> int:
    table, done = db.table("ops"), 0
    while done < operations:
        drawn = np.minimum(np.searchsorted(cumulative, rng.random(DRAWS_PER_TRANSACTION)), len(ids) - 1)
        keys = np.unique(ids[drawn])
        done += table.put_many(workloads.random_rows(rng, keys)).operations
        done += table.delete_many(rng.choice(keys, max(1, len(keys) // 20), replace=False).tolist()).operations
    return done
