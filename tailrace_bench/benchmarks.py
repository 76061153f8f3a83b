"""The benchmarks. Each returns figures; ratios are of two things measured in the same run."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from typing import Any

import numpy as np

import tailrace as tr
from tailrace_bench import limits, workloads
from tailrace_bench.measure import Memory, percentile, spread, timed

Figures = dict[str, Any]
SUM = "SELECT grp, SUM(amount) AS total, COUNT(*) AS n FROM ops GROUP BY grp"
EXTREMES = "SELECT grp, MIN(other) AS lo, MAX(other) AS hi FROM ops GROUP BY grp"
FILTER = "SELECT id, grp, amount FROM ops WHERE amount < 500"
JOIN = "SELECT o.id, o.amount, g.name FROM ops o JOIN groups g ON o.grp = g.id"


def view(db: tr.Database, name: str, sql: str) -> None:
    db.sql(f"CREATE MATERIALIZED VIEW {name} AS {sql}")


def check(db: tr.Database) -> None:
    for name in db.views():
        report = db.verify(name)
        if not report.ok:
            raise SystemExit(f"view {name} is wrong, so its figures do not count: {report}")


def groups(db: tr.Database) -> None:
    db.sql("CREATE TABLE groups (id BIGINT PRIMARY KEY, name STRING)")
    db.table("groups").put_many([{"id": i, "name": f"group {i}"} for i in range(workloads.GROUPS)])


def sums(scale: float, runs: int = 3) -> Figures:
    """SUM and COUNT by group: one epoch of 2M operations on 100k keys, beside scanning and summing the same log."""
    operations, rng = int(2_000_000 * scale), np.random.default_rng(1)
    rates, scans = [], []
    with workloads.store() as db:
        view(db, "totals", SUM)
        for run in range(runs + 1):
            count = workloads.operate(db, rng, operations, 100_000)
            limits.scan_and_sum(db, "ops", "amount")
            scan = limits.scan_and_sum(db, "ops", "amount")
            with Memory() as memory:
                seconds, epoch = timed(db.refresh)
            if run:  # the first one warms up
                rates.append(epoch.operations / seconds)
                scans.append(count / scan)
        check(db)
    ratios = [a / b for a, b in zip(rates, scans, strict=True)]
    return {
        "operations_per_second": spread(rates),
        "scan_per_second": spread(scans),
        "of_scan": spread(ratios),
        "peak_memory_gib": round(memory.peak / 2**30, 2),
        "driver_memory_gib": round(memory.driver / 2**30, 2),
    }


def filters(scale: float, runs: int = 3) -> Figures:
    """A filter view that writes a million rows, beside writing the same rows into LMDB, sorted, by two processes."""
    count, rng = int(2_000_000 * scale), np.random.default_rng(2)
    rates, writes = [], []
    for _ in range(runs):
        with workloads.store() as db:
            view(db, "cheap", FILTER)
            workloads.operate(db, rng, 60_000, 60_000)
            db.refresh()  # warms up, with another key range
            start = 1_000_000_000
            for begin in range(0, count, 200_000):
                db.table("ops").put_many(workloads.rows(rng, np.arange(begin, begin + 200_000) + start))
            seconds, epoch = timed(db.refresh)
            rates.append(epoch.view_rows / seconds)
            check(db)
            pairs = limits.view_pairs(db, "cheap")
        writes.append(len(pairs) / limits.write_to_lmdb(pairs, 2))
    ratios = [a / b for a, b in zip(rates, writes, strict=True)]
    return {"rows_per_second": spread(rates), "lmdb_per_second": spread(writes), "of_lmdb": spread(ratios)}


def flat(scale: float, runs: int = 5) -> Figures:
    """An epoch of 10k operations over tables of 20k, 200k and 2M rows, for each kind of view.

    Ten thousand random keys of a small table share its few pages; of a large one each lies on a page of its own,
    which a durable commit writes. That is what views that keep a row per row of the table pay, and no more.
    """
    middle, large = int(200_000 * scale), int(2_000_000 * scale)
    seconds: dict[str, dict[int, list[float]]] = {}
    kinds = {"sum": SUM, "extremes": EXTREMES, "filter": FILTER, "join": JOIN}
    for kind, sql in kinds.items():
        for size in (20_000, middle, large):
            rng = np.random.default_rng(3)
            with workloads.store() as db:
                groups(db)
                workloads.fill(db, rng, size)
                view(db, "v", sql)
                taken = []
                for _ in range(runs + 3):
                    workloads.operate(db, rng, 10_000, size)
                    taken.append(db.refresh().seconds)
                if size == 20_000:
                    check(db)
                seconds.setdefault(kind, {})[size] = taken[3:]
    return {
        kind: {
            "rows_20k": spread(by_size[20_000]),
            "rows_200k": spread(by_size[middle]),
            "rows_2m": spread(by_size[large]),
            "2m_of_20k": round(spread(by_size[large])["median"] / spread(by_size[20_000])["median"], 2),
            "2m_of_200k": round(spread(by_size[large])["median"] / spread(by_size[middle])["median"], 2),
        }
        for kind, by_size in seconds.items()
    }


def small(scale: float, runs: int = 20) -> Figures:
    """A warm epoch of 1,000 operations with three views; and point reads while such epochs run."""
    rng = np.random.default_rng(4)
    with workloads.store() as db:
        groups(db)
        workloads.fill(db, rng, 20_000)
        view(db, "totals", SUM)
        view(db, "cheap", FILTER)
        view(db, "named", JOIN)
        for _ in range(5):
            workloads.operate(db, rng, 1_000, 20_000)
            db.refresh()
        seconds = []
        for _ in range(runs):
            workloads.operate(db, rng, 1_000, 20_000)
            seconds.append(db.refresh().seconds)
        reads = _reads_while(db, lambda: [workloads.operate(db, rng, 1_000, 20_000), db.refresh()], runs // 2)
        check(db)
    return {"epoch_seconds": spread(seconds), "point_read_ms": reads}


def _reads_while(db: tr.Database, work: Callable[[], Any], times: int) -> Figures:
    """Latencies of point reads in another thread while `work` goes on."""
    latencies: list[float] = []
    stop = threading.Event()

    def read() -> None:
        view_, rng = db.view("totals"), np.random.default_rng(5)
        while not stop.is_set():
            key = int(rng.integers(0, workloads.GROUPS))
            began = time.perf_counter()
            view_.get(key)
            latencies.append((time.perf_counter() - began) * 1e3)
            stop.wait(0.0005)

    thread = threading.Thread(target=read)
    thread.start()
    for _ in range(times):
        work()
    stop.set()
    thread.join()
    return {
        "p50": round(percentile(latencies, 0.5), 4),
        "p99": round(percentile(latencies, 0.99), 4),
        "reads": len(latencies),
    }
