"""Freshness of views over HBase tables, and the time of point reads."""

from __future__ import annotations

import subprocess
import sys
import threading
import time
from dataclasses import dataclass, field

import numpy as np

from tailrace.database.view import View
from tailrace_bench import workloads
from tailrace_bench.experiments.aggregates import SUM
from tailrace_bench.harness import create_view, make_line, verify_views
from tailrace_bench.hbase.bench_store import TABLE, BenchStore, bench_store, plain_client
from tailrace_bench.measure import percentile, time_call
from tailrace_bench.processes import running_maintenance
from tailrace_bench.results import Result, Target, Whose
from tailrace_bench.size import Size

SELECTION = "SELECT id, grp, amount, other FROM ops WHERE amount < 500"
RATES = (500, 2_000)
CALLS = 20  # per second
READS = 300
PATIENCE = 300.0  # seconds until a written row must be visible
WHY_FRESHNESS = (
    "a row waits for HBase's replication, for the end of the epoch that runs, then for the resolver and an epoch of "
    "its own, which runs a Spark job and makes calls of HBase one after another"
)
WHY_READS = (
    "a read is three calls one after another: the committed epoch, the row with the marks, the catalog's version"
)
WARMUP_SHARE = 0.25  # of the latencies of a run, not counted


def hbase_freshness(size: Size) -> Result:
    """Time until a paced writer's rows are seen in a view, by a reader that looks again and again."""
    p50s, p99s, reached = [], [], []
    with bench_store() as made:
        create_view(made.db, "sums", SUM)
        create_view(made.db, "chosen", SELECTION)
        with running_maintenance(made.db.path):
            _measure(made, size, RATES[-1])  # warm-up
            for rate in RATES:
                runs = [_measure(made, size, rate) for _ in range(size.repeats)]
                p50s.append((rate, [percentile(run.latencies, 0.5) for run in runs]))
                p99s.append((rate, [percentile(run.latencies, 0.99) for run in runs]))
                reached.append(f"{rate:,}: {min(run.rate for run in runs):,.0f}")
        made.db.refresh()
        verify_views(made.db)
    return Result(
        name="hbase_freshness",
        title="HBase: freshness",
        question="How long after a client of HBase begins to put rows are they seen in two views (SUM, selection), by "
        f"the write rate? The client knows nothing of Tailrace and makes {CALLS} calls per second.",
        x="operations written per second",
        y="seconds from write to readable",
        lines=(make_line("p50", Whose.TAILRACE, p50s), make_line("p99", Whose.TAILRACE, p99s)),
        targets=(
            Target(
                f"HBase: freshness at {RATES[-1]:,} operations/s, p50, seconds",
                0.5,
                max(dict(p50s)[RATES[-1]]),
                at_least=False,
                why=WHY_FRESHNESS,
            ),
        ),
        notes=(
            "The way of a row: HBase's log, replication, the raw log, the resolver, an epoch. `tailrace run` does the "
            "last two, one after the other.",
            "Write rates reached: " + ", ".join(reached) + ".",
        ),
    )


def hbase_reads(size: Size) -> Result:
    """Point reads of a view, of the table by its client, and a scan by a client."""
    with bench_store() as made, plain_client() as client:
        create_view(made.db, "sums", SUM)
        rng = np.random.default_rng(24)
        made.db.table(TABLE).put_many(workloads.random_rows(rng, np.arange(size.hbase_epoch)))
        made.db.refresh()
        verify_views(made.db)
        made.store.finish_trimming()  # else this process deletes old images while its reads are measured
        view, table = made.db.view("sums"), client.table(made.table, None)
        keys = rng.integers(0, workloads.GROUPS, READS).tolist()
        row = next(iter(table.scan(b"", None, size=1)))[0][0]
        for call in (lambda: view.get(keys[0]), lambda: table.get(row)):
            [call() for _ in range(READS // 3)]  # warm-up
        ours = [[time_call(lambda key=key: view.get(key))[0] for key in keys] for _ in range(size.repeats)]
        plain = [[time_call(lambda: table.get(row))[0] for _ in keys] for _ in range(size.repeats)]
        scans = [time_call(lambda: sum(len(page) for page in table.scan(b"", None)))[0] for _ in range(size.repeats)]
    p50, p99 = (max(percentile(run, share) for run in ours) for share in (0.5, 0.99))
    return Result(
        name="hbase_reads",
        title="HBase: reading a view",
        question="How long does a client wait for one row of a view, for one row of a table of HBase, and for a scan "
        f"of that table with {size.hbase_epoch:,} rows?",
        x="read",
        y="seconds",
        lines=(
            make_line("view, one row", Whose.TAILRACE, [(x, [percentile(r, s) for r in ours]) for x, s in SHARES]),
            make_line(
                "HBase, one row",
                Whose.LIMIT,
                [(x, [percentile(r, s) for r in plain]) for x, s in SHARES],
                "one `get` through the same Thrift2 server: a single call, without an epoch",
            ),
            make_line("HBase, scan by a client", Whose.PEER, [("p50", scans)], "reads all rows, computes nothing"),
        ),
        targets=(
            Target("HBase: point read of a view, p50, seconds", 0.003, p50, at_least=False, why=WHY_READS),
            Target("HBase: point read of a view, p99, seconds", 0.01, p99, at_least=False, why=WHY_READS),
        ),
        log_y=True,
    )


SHARES = (("p50", 0.5), ("p99", 0.99))


@dataclass
class Latencies:
    """Seconds until the rows of each call were seen, and rows per second that the writer reached."""

    latencies: list[float] = field(default_factory=list)
    rate: float = 0.0


def _measure(made: BenchStore, size: Size, rate: int) -> Latencies:
    """Runs a writer and looks at the row that it changes in each call until the last one is seen."""
    module = [sys.executable, "-m", "tailrace_bench.hbase.paced_writer", str(made.cluster.port), made.table]
    begun: dict[int, float] = {}
    found, view = Latencies(), made.db.view("chosen")
    seen = before = _number(view)
    options = [str(size.hbase_seconds), str(rate), str(CALLS), str(size.keys), str(before)]
    with subprocess.Popen([*module, *options], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as writer:
        listener = threading.Thread(target=_listen, args=(writer, begun, found), daemon=True)
        listener.start()
        deadline = time.monotonic() + PATIENCE
        while listener.is_alive() or seen < before + len(begun):
            number, now = _number(view), time.monotonic()
            found.latencies += [now - begun[n] for n in range(seen + 1, number + 1) if n in begun]
            seen = number
            if now > deadline:
                calls = f"{before + len(begun) - seen} of {len(begun)}"
                raise RuntimeError(f"{calls} calls of the writer are not seen after {PATIENCE:.0f} s")
            time.sleep(0.005)
    if not found.rate:
        raise RuntimeError("the writer process ended before it reported its rate; its error is on stderr")
    found.latencies = found.latencies[int(WARMUP_SHARE * len(found.latencies)) :]
    return found


def _number(view: View) -> int:
    """The number of the last call whose row is seen."""
    row = view.get(0)
    return 0 if row is None else int(row["other"])


def _listen(writer: subprocess.Popen[str], begun: dict[int, float], found: Latencies) -> None:
    """Starts the writer and takes in when its calls began."""
    assert writer.stdin is not None
    assert writer.stdout is not None
    writer.stdout.readline()
    writer.stdin.write("go\n")
    writer.stdin.flush()
    for line in writer.stdout:
        first, second = line.split()
        if first == "end":
            found.rate = float(second)
        else:
            begun[int(first)] = float(second)
