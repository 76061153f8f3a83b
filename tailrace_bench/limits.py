"""The `limits` benchmark: what the machine can do at best, without comparison to a workload."""

from __future__ import annotations

import tempfile
import time
from collections.abc import Callable

import lmdb
import numpy as np
import pyspark.sql

from tailrace_bench import bounds, workloads
from tailrace_bench.harness import create_view, make_line, median, verify_views
from tailrace_bench.results import Result, Whose
from tailrace_bench.size import Size

READS = 20_000
JOBS = 10


def limits(size: Size) -> Result:
    """Rates of the basic steps of an epoch and of a read."""
    rng = np.random.default_rng(11)
    scans, rows, pairs = [], [], []
    with workloads.temporary_store() as db:
        create_view(db, "totals", "SELECT grp, COUNT(*) AS n FROM ops GROUP BY grp")
        jobs = _empty_jobs(db.spark, size.repeats)
        for _ in range(size.repeats + 1):
            operations = workloads.apply_operations(db, rng, size.large_epoch, size.keys)
            scans.append(operations / bounds.time_log_scan(db, "ops"))
            db.refresh()
            written = bounds.measure_lmdb_writes(workloads.random_rows(rng, np.arange(size.lmdb_rows)), 1)
            rows.append(written.rows)
            pairs.append(written.pairs)
        verify_views(db)
        view = db.view("totals")
        keys = rng.integers(0, workloads.GROUPS, READS).tolist()
        view_reads = [_calls_per_second(view.get, keys) for _ in range(size.repeats)]
    lmdb_reads = _lmdb_point_reads(keys, size.repeats)
    return Result(
        name="limits",
        title="Limits of the machine",
        question="How many log records can Spark scan per second, how many rows can LMDB write, and how many empty "
        "Spark jobs and point reads can the machine run?",
        x="operation",
        y="per second",
        lines=(
            make_line(
                "limit",
                Whose.LIMIT,
                [
                    (bounds.LOG_SCAN, scans[1:]),
                    (bounds.LMDB_ROWS, rows[1:]),
                    (bounds.LMDB_PAIRS, pairs[1:]),
                    ("empty Spark job", jobs),
                    ("point read", lmdb_reads),
                ],
            ),
            make_line(
                "Tailrace",
                Whose.TAILRACE,
                [("point read", view_reads)],
                "view.get(key) from Python, including its checks",
            ),
        ),
        notes=(
            f"An empty Spark job takes {1e3 / median(jobs):.1f} ms.",
            f"A point read takes {1e6 / median(lmdb_reads):.1f} µs in LMDB and {1e6 / median(view_reads):.1f} µs "
            "through a view.",
            f"{bounds.LMDB_ROWS}: {bounds.LMDB_ROWS_NOTE}. {bounds.LMDB_PAIRS}: {bounds.LMDB_PAIRS_NOTE}.",
        ),
        log_y=True,
    )


def _empty_jobs(spark: pyspark.sql.SparkSession, repeats: int) -> list[float]:
    """Jobs per second that do nothing, on two partitions: a store has two nodes by default."""
    empty = spark.sparkContext._jsc.parallelize([0, 0], 2)

    def job(_: int) -> None:
        empty.count()

    _calls_per_second(job, range(JOBS))
    return [_calls_per_second(job, range(JOBS)) for _ in range(repeats)]


def _calls_per_second(call: Callable[[int], object], arguments: range | list[int]) -> float:
    began = time.perf_counter()
    for argument in arguments:
        call(argument)
    return len(arguments) / (time.perf_counter() - began)


def _lmdb_point_reads(keys: list[int], repeats: int) -> list[float]:
    """Reads per second of single rows. Each has its own transaction, as a client's read has."""
    with tempfile.TemporaryDirectory(prefix="tailrace-bench-") as scratch:
        env = lmdb.open(scratch, map_size=1 << 30)
        with env.begin(write=True) as txn:
            for key in range(workloads.GROUPS):
                txn.put(key.to_bytes(9, "big"), bytes(25))

        def read(key: int) -> None:
            with env.begin() as txn:
                txn.get(key.to_bytes(9, "big"))

        rates = [_calls_per_second(read, keys) for _ in range(repeats)]
        env.close()
    return rates
