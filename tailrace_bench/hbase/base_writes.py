"""Whether shipping the log slows base writes down: one client writes with and without the replication peer."""

from __future__ import annotations

import time
from dataclasses import dataclass

import numpy as np

from tailrace.store.hbase.client import HbaseTable
from tailrace_bench.harness import make_line, median
from tailrace_bench.hbase.bench_store import BenchStore, bench_store, encode_keys, plain_client
from tailrace_bench.measure import percentile
from tailrace_bench.results import Result, Target, Whose
from tailrace_bench.size import Size

RATE = 5_000  # rows per second
CALLS = 50  # per second
WITH, WITHOUT = "with the endpoint", "without"


@dataclass(frozen=True)
class Written:
    """Rows per second that a writer reached, and the seconds that each of its calls took."""

    rate: float
    calls: list[float]


def hbase_writes(size: Size) -> Result:
    """A paced writer and one at full speed, alternately with and without the peer."""
    paced: dict[str, list[Written]] = {WITHOUT: [], WITH: []}
    unpaced: dict[str, list[Written]] = {WITHOUT: [], WITH: []}
    with bench_store() as made, plain_client() as client:
        table = client.table(made.table, None)
        _write(table, 0, size.hbase_seconds, 0)  # warm-up: Java compiles the hot code
        for run in range(size.repeats):
            for name in (WITHOUT, WITH) if run % 2 else (WITH, WITHOUT):
                made.set_peer(name == WITH)
                paced[name].append(_write(table, RATE, size.hbase_seconds, run))
                unpaced[name].append(_write(table, 0, size.hbase_seconds, run))
                _ship_all(made, name)
        made.set_peer(True)
    slower = median([1 - w.rate / o.rate for w, o in zip(paced[WITH], paced[WITHOUT], strict=True)])
    full = median([1 - w.rate / o.rate for w, o in zip(unpaced[WITH], unpaced[WITHOUT], strict=True)])
    points = {
        name: [
            (f"asked for {RATE:,}/s", [w.rate for w in paced[name]]),
            ("full speed", [w.rate for w in unpaced[name]]),
        ]
        for name in (WITH, WITHOUT)
    }
    return Result(
        name="hbase_writes",
        title="HBase: base writes with and without the replication endpoint",
        question="How many rows per second can one client put into a table of HBase, with and without the endpoint "
        f"that ships HBase's log? Each call puts {RATE // CALLS} rows, alternately with and without the peer.",
        x="writer",
        y="rows written per second",
        lines=(
            make_line(WITH, Whose.TAILRACE, points[WITH]),
            make_line(WITHOUT, Whose.LIMIT, points[WITHOUT], "the peer is removed: nothing is shipped"),
        ),
        targets=(
            Target(
                f"HBase: base writes at {RATE:,} rows/s with the endpoint: slowdown",
                0.1,
                slower,
                at_least=False,
                why="the endpoint writes every cell once more, on the same two cores",
            ),
        ),
        notes=(
            f"At full speed the writer is {full:.0%} slower with the endpoint, which writes every cell once more, on "
            "the same two cores.",
            f"A call at {RATE:,} rows/s takes {_describe_calls(paced[WITH])} with the endpoint, "
            f"{_describe_calls(paced[WITHOUT])} without.",
        ),
    )


def _write(table: HbaseTable, rate: int, seconds: float, seed: int) -> Written:
    """Puts random rows for some seconds, at a rate (0: as fast as possible), one call after another."""
    rng, calls, batch = np.random.default_rng(seed), list[float](), RATE // CALLS
    began = time.monotonic()
    while (now := time.monotonic()) < began + seconds:
        if rate and (early := began + len(calls) * batch / rate - now) > 0:
            time.sleep(early)
        keys = encode_keys(rng.integers(0, 1 << 40, batch))
        rows = [(key, {b"f:grp": bytes(8), b"f:amount": bytes(8)}) for key in keys]
        called = time.monotonic()
        table.put_many(rows)
        calls.append(time.monotonic() - called)
    return Written(len(calls) * batch / (time.monotonic() - began), calls)


def _ship_all(made: BenchStore, name: str) -> None:
    """Waits until everything is shipped and resolved, so that the next writer has the machine to itself."""
    if name == WITH:
        made.store.catch_up()


def _describe_calls(runs: list[Written]) -> str:
    calls = [seconds for run in runs for seconds in run.calls]
    return f"{percentile(calls, 0.5) * 1e3:.1f} ms (p50; p99 {percentile(calls, 0.99) * 1e3:.1f} ms)"
