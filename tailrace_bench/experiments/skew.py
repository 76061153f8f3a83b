"""Uniform against Zipf: some keys are changed far more often than others."""

from __future__ import annotations

import numpy as np

import tailrace as tr
from tailrace_bench import bounds, workloads
from tailrace_bench.experiments.aggregates import EXTREMES, RATE, SUM
from tailrace_bench.harness import WARM, check, create, line, refreshed, short
from tailrace_bench.results import Result, Whose
from tailrace_bench.size import Size

DRAWS = 1_000  # a transaction's; of a key that is drawn twice there, only the last row counts
SHARE = 5  # of the operations of other benchmarks: transactions are small here, and take long


def skew(size: Size) -> Result:
    """Epochs of operations whose keys are drawn by Zipf's law."""
    operations = size.usual // SHARE
    views = {"SUM, COUNT": SUM, "MIN, MAX": EXTREMES}
    found: dict[str, list[tuple[float, list[float]]]] = {kind: [] for kind in views}
    scans: list[tuple[float, list[float]]] = []
    for exponent in size.exponents:
        for kind, sql in views.items():
            rates, limits = _measured(size, sql, exponent, operations)
            found[kind].append((exponent, rates))
            if kind == "SUM, COUNT":
                scans.append((exponent, limits))
    return Result(
        name="skew",
        title="Uniform against Zipf",
        question=f"How many operations a second do views take on, in epochs of {short(operations)} operations on "
        f"{short(size.keys)} keys, by the exponent of Zipf's law that the keys follow (0 is uniform)?",
        x="exponent of Zipf's law",
        y=RATE,
        lines=(
            *(line(kind, Whose.TAILRACE, points) for kind, points in found.items()),
            line(bounds.SCAN, Whose.LIMIT, scans, "reads the log and sums a column"),
        ),
    )


def _measured(size: Size, sql: str, exponent: float, operations: int) -> tuple[list[float], list[float]]:
    rng = np.random.default_rng(15)
    weights = 1 / np.arange(1, size.keys + 1) ** exponent
    edges = np.cumsum(weights / weights.sum())
    names = rng.permutation(size.keys)
    rates, scans = [], []
    with workloads.store() as db:
        create(db, "v", sql)
        for run in range(WARM + size.repeats):
            done = _operate(db, rng, edges, names, operations)
            scan = bounds.scan_log(db, "ops")
            epoch = refreshed(db)
            if run >= WARM:
                rates.append(epoch.rate)
                scans.append(done / scan)
        check(db)
    return rates, scans


def _operate(db: tr.Database, rng: np.random.Generator, edges: np.ndarray, names: np.ndarray, operations: int) -> int:
    table, done = db.table("ops"), 0
    while done < operations:
        drawn = np.minimum(np.searchsorted(edges, rng.random(DRAWS)), len(names) - 1)
        keys = np.unique(names[drawn])
        done += table.put_many(workloads.rows(rng, keys)).operations
        done += table.delete_many(rng.choice(keys, max(1, len(keys) // 20), replace=False).tolist()).operations
    return done
