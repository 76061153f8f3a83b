"""The limits of the machine, by themselves."""

from __future__ import annotations

import tempfile
import time
from collections.abc import Callable

import lmdb
import numpy as np
import pyspark.sql

from tailrace_bench import bounds, workloads
from tailrace_bench.harness import check, create, line, median
from tailrace_bench.results import Result, Whose
from tailrace_bench.size import Size

READS = 20_000
JOBS = 10


def limits(size: Size) -> Result:
    """How often a second the machine can do what Tailrace is made of."""
    rng = np.random.default_rng(11)
    scans, rows, pairs = [], [], []
    with workloads.store() as db:
        create(db, "totals", "SELECT grp, COUNT(*) AS n FROM ops GROUP BY grp")
        jobs = _empty_jobs(db.spark, size.repeats)
        for _ in range(size.repeats + 1):
            operations = workloads.operate(db, rng, size.operations, size.keys)
            scans.append(operations / bounds.scan_log(db, "ops"))
            db.refresh()
            written = bounds.write_lmdb(workloads.rows(rng, np.arange(size.rows)), 1)
            rows.append(written.rows)
            pairs.append(written.pairs)
        check(db)
        view = db.view("totals")
        keys = rng.integers(0, workloads.GROUPS, READS).tolist()
        ours = [_per_second(view.get, keys) for _ in range(size.repeats)]
    points = [_point_reads(keys, size.repeats), ours]
    return Result(
        name="limits",
        title="What the machine can do",
        question="How many log records can Spark scan, how many rows can LMDB take, how many empty Spark jobs and "
        "point reads are there in a second?",
        x="what",
        y="per second",
        lines=(
            line(
                "limit",
                Whose.LIMIT,
                [
                    (bounds.SCAN, scans[1:]),
                    (bounds.ROWS, rows[1:]),
                    (bounds.PAIRS, pairs[1:]),
                    ("empty Spark job", jobs),
                    ("point read", points[0]),
                ],
            ),
            line("Tailrace", Whose.TAILRACE, [("point read", points[1])], "view.get(key) in Python, with its checks"),
        ),
        notes=(
            f"An empty Spark job takes {1e3 / median(jobs):.1f} ms.",
            f"A point read takes LMDB {1e6 / median(points[0]):.1f} µs, of a view {1e6 / median(points[1]):.1f} µs.",
            f"{bounds.ROWS}: {bounds.ROWS_NOTE}. {bounds.PAIRS}: {bounds.PAIRS_NOTE}.",
        ),
        log_y=True,
    )


def _empty_jobs(spark: pyspark.sql.SparkSession, repeats: int) -> list[float]:
    """Jobs per second that do nothing, on as many partitions as a store has nodes."""
    empty = spark.sparkContext._jsc.parallelize([0, 0], 2)

    def job(_: int) -> None:
        empty.count()

    _per_second(job, range(JOBS))
    return [_per_second(job, range(JOBS)) for _ in range(repeats)]


def _per_second(work: Callable[[int], object], over: range | list[int]) -> float:
    began = time.perf_counter()
    for item in over:
        work(item)
    return len(over) / (time.perf_counter() - began)


def _point_reads(keys: list[int], repeats: int) -> list[float]:
    """Reads per second of single rows, each in a transaction of its own, as a client's are."""
    with tempfile.TemporaryDirectory(prefix="tailrace-bench-") as scratch:
        env = lmdb.open(scratch, map_size=1 << 30)
        with env.begin(write=True) as txn:
            for key in range(workloads.GROUPS):
                txn.put(key.to_bytes(9, "big"), bytes(25))

        def read(key: int) -> None:
            with env.begin() as txn:
                txn.get(key.to_bytes(9, "big"))

        rates = [_per_second(read, keys) for _ in range(repeats)]
        env.close()
    return rates
