"""Freshness: the time from a write until it is readable in views, at sustained write rates."""

from __future__ import annotations

import queue
import threading
import time

import tailrace as tr
from tailrace_bench import workloads
from tailrace_bench.experiments.epochs import KINDS
from tailrace_bench.harness import create_view, make_line, verify_views
from tailrace_bench.measure import percentile
from tailrace_bench.processes import Writer, running_maintenance
from tailrace_bench.results import Result, Target, Whose
from tailrace_bench.size import Size

VIEWS = ("SUM, COUNT", "selection")
TRANSACTIONS_PER_SECOND = 50
READ_TIMEOUT = 300.0
WARMUP_SHARE = 0.2  # of the latencies of a run, not counted


def freshness(size: Size) -> Result:
    """Latency with a paced writer, `tailrace run`, and a reader that waits for every transaction."""
    p50s: list[tuple[int, list[float]]] = []
    p99s: list[tuple[int, list[float]]] = []
    reached_rates: list[tuple[int, float]] = []
    with workloads.temporary_store() as db:
        for number, kind in enumerate(VIEWS):
            create_view(db, f"v{number}", KINDS[kind])
        first = db.table("ops").put({"id": 0, "grp": 0, "amount": 0, "other": 0})
        with running_maintenance(db.path):
            db.view("v0").get(0, at_least=first, timeout=READ_TIMEOUT)
            _measure_latencies(db, size, size.write_rates[-1], 0)  # warm-up
            for rate in size.write_rates:
                runs = [_measure_latencies(db, size, rate, run) for run in range(size.repeats)]
                p50s.append((rate, [percentile(latencies, 0.5) for latencies, _ in runs]))
                p99s.append((rate, [percentile(latencies, 0.99) for latencies, _ in runs]))
                reached_rates.append((rate, min(reached for _, reached in runs)))
        verify_views(db)
    highest = size.write_rates[-1]
    p50, p99 = (max(dict(points)[highest]) for points in (p50s, p99s))
    return Result(
        name="freshness",
        title="Freshness",
        question=f"How long after a write begins is it readable in {len(VIEWS)} views, by the write rate? "
        f"One client writes {TRANSACTIONS_PER_SECOND} durable transactions per second.",
        x="operations written per second",
        y="seconds from write to readable",
        lines=(make_line("p50", Whose.TAILRACE, p50s), make_line("p99", Whose.TAILRACE, p99s)),
        targets=(
            Target(f"p50 at {highest:,} operations/s, seconds", 1, p50, at_least=False),
            Target(f"p99 at {highest:,} operations/s, seconds", 2, p99, at_least=False),
            Target(
                f"writer at {highest:,} operations/s: share of that rate reached", 0.99, reached_rates[-1][1] / highest
            ),
        ),
        notes=(
            "The reader waits for each transaction with `at_least`, which polls for a new epoch at least every 20 ms.",
            "Write rates reached: " + ", ".join(f"{rate:,}: {reached:,.0f}" for rate, reached in reached_rates) + ".",
        ),
        log_x=True,
    )


def _measure_latencies(db: tr.Database, size: Size, rate: int, seed: int) -> tuple[list[float], float]:
    """Seconds from each write until it was readable, and the rate that the writer reached."""
    writer = Writer(
        db.path, size.write_seconds, rate=rate, batch=rate // TRANSACTIONS_PER_SECOND, keys=size.keys, seed=seed
    )
    pending: queue.Queue[tuple[int, float] | None] = queue.Queue()

    def listen() -> None:
        try:
            for transaction in writer.transactions():
                pending.put(transaction)
        finally:
            pending.put(None)

    listener = threading.Thread(target=listen, daemon=True)
    listener.start()
    view, latencies = db.view("v0"), []
    while (transaction := pending.get()) is not None:
        number, began = transaction
        view.get(0, at_least=number, timeout=READ_TIMEOUT)
        latencies.append(time.monotonic() - began)
    listener.join()
    if not writer.seconds:
        raise RuntimeError("the writer process ended before it reported its total time; its error is on stderr")
    return latencies[int(WARMUP_SHARE * len(latencies)) :], writer.rate
