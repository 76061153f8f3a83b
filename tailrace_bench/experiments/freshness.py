"""Freshness: from the write to the moment it can be read in the view, at sustained rates."""

from __future__ import annotations

import queue
import threading
import time

import tailrace as tr
from tailrace_bench import workloads
from tailrace_bench.experiments.epochs import KINDS
from tailrace_bench.harness import check, create, line
from tailrace_bench.measure import percentile
from tailrace_bench.processes import Writer, maintained
from tailrace_bench.results import Result, Target, Whose
from tailrace_bench.size import Size

VIEWS = ("SUM, COUNT", "selection")
PER_SECOND = 50  # transactions
PATIENCE = 300.0
EARLY = 0.2  # share of a run that does not count


def freshness(size: Size) -> Result:
    """A writer at a rate, `tailrace run`, and a reader that waits for every write."""
    middle: list[tuple[int, list[float]]] = []
    late: list[tuple[int, list[float]]] = []
    came: list[tuple[int, float]] = []
    with workloads.store() as db:
        for number, kind in enumerate(VIEWS):
            create(db, f"v{number}", KINDS[kind])
        first = db.table("ops").put({"id": 0, "grp": 0, "amount": 0, "other": 0})
        with maintained(db.path):
            db.view("v0").get(0, at_least=first, timeout=PATIENCE)
            _latencies(db, size, size.rates[-1], 0)  # gets all processes warm
            for rate in size.rates:
                runs = [_latencies(db, size, rate, run) for run in range(size.repeats)]
                middle.append((rate, [percentile(found, 0.5) for found, _ in runs]))
                late.append((rate, [percentile(found, 0.99) for found, _ in runs]))
                came.append((rate, min(reached for _, reached in runs)))
        check(db)
    most = size.rates[-1]
    p50, p99 = (max(dict(points)[most]) for points in (middle, late))
    return Result(
        name="freshness",
        title="Freshness",
        question=f"How long after a write began can it be read in {len(VIEWS)} views, while one client writes so many "
        f"operations a second, in {PER_SECOND} durable transactions a second?",
        x="operations written per second",
        y="seconds from write to readable",
        lines=(line("p50", Whose.TAILRACE, middle), line("p99", Whose.TAILRACE, late)),
        targets=(
            Target(f"p50 at {most:,} operations/s, seconds", 1, p50, at_least=False),
            Target(f"p99 at {most:,} operations/s, seconds", 2, p99, at_least=False),
            Target(f"writer at {most:,} operations/s: share of the rate that it kept", 0.99, came[-1][1] / most),
        ),
        notes=(
            "The reader waits for each transaction with `at_least`, and looks for a new epoch every 20 ms at most.",
            "Rates that the writer kept: " + ", ".join(f"{rate:,}: {reached:,.0f}" for rate, reached in came) + ".",
        ),
        log_x=True,
    )


def _latencies(db: tr.Database, size: Size, rate: int, seed: int) -> tuple[list[float], float]:
    """Seconds from each write to when it could be read, and the rate that the writer kept."""
    writer = Writer(db.path, size.seconds, rate=rate, batch=rate // PER_SECOND, keys=size.keys, seed=seed)
    waiting: queue.Queue[tuple[int, float] | None] = queue.Queue()

    def listen() -> None:
        try:
            for transaction in writer.written():
                waiting.put(transaction)
        finally:
            waiting.put(None)

    listener = threading.Thread(target=listen, daemon=True)
    listener.start()
    view, found = db.view("v0"), []
    while (transaction := waiting.get()) is not None:
        number, began = transaction
        view.get(0, at_least=number, timeout=PATIENCE)
        found.append(time.monotonic() - began)
    listener.join()
    if not writer.seconds:
        raise RuntimeError("the writer failed before its time")
    return found[int(EARLY * len(found)) :], writer.rate
