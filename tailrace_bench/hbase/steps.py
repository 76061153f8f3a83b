"""The steps from HBase's log to a view, each beside what a plain client reaches for the same rows.

    write ─► HBase's log ─► endpoint ─► raw log ─► RESOLVER ─► log with rows before and after ─► EPOCH ─► view

The resolver and the epoch are timed one after the other, when everything is shipped.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from tailrace.database.inside import inside
from tailrace.epochs.model import Epoch
from tailrace.store.commits import read_committed
from tailrace.store.hbase.client import HbaseTable
from tailrace.store.hbase.raw_log import read_marks
from tailrace_bench import workloads
from tailrace_bench.experiments.aggregates import SUM
from tailrace_bench.harness import create_view, make_line, median, short_count, verify_views
from tailrace_bench.hbase.bench_store import TABLE, BenchStore, bench_store
from tailrace_bench.hbase.thrift_limits import limit_table, row_keys, time_look_ups, time_puts
from tailrace_bench.measure import time_call
from tailrace_bench.results import Result, Target, Whose
from tailrace_bench.size import Size

SELECTION = "SELECT id, grp, amount FROM ops WHERE amount < 500"
SUM_EPOCH, SELECTION_EPOCH = "epoch: SUM, 10k groups", "epoch: selection of 50%"
RESOLVER, READING, REFRESH = "resolver", "reading the log", "all: resolver, round, epoch, trimming"
QUIET = 0.5  # seconds without a new mark: everything is shipped
WARMUP = 1  # epochs that are not counted
PROCESSES = "the epoch has one task; the limit one client process with as many connections"


@dataclass
class Rates:
    """Operations per second of each run: by Tailrace, and by a plain client."""

    ours: list[float]
    limit: list[float]

    @property
    def share(self) -> float:
        """Median of the ratios of each run."""
        return median([ours / limit for ours, limit in zip(self.ours, self.limit, strict=True)])


def hbase_steps(size: Size) -> Result:
    rates = {**_measure_sum(size), SELECTION_EPOCH: _measure_selection(size)}
    read = median(rates[READING].ours)
    return Result(
        name="hbase_steps",
        title="HBase: from the log to a view",
        question="How many operations per second does each step take, beside what a plain client of the same cluster "
        f"reaches for the same rows? Each epoch has {short_count(size.hbase_epoch)} operations: updates of all rows "
        "of a table for SUM, new rows for the selection.",
        x="step",
        y="operations per second",
        lines=(
            make_line("Tailrace", Whose.TAILRACE, [(x, r.ours) for x, r in rates.items()]),
            make_line("plain client", Whose.LIMIT, [(x, r.limit) for x, r in rates.items() if r.limit], NOTE),
        ),
        targets=(
            Target("HBase: rows read from the log per second, one process", 150_000, 2 * read),
            Target(f"HBase: {SUM_EPOCH}: share of log read and groups put", 0.5, rates[SUM_EPOCH].share, why=WHY_SUM),
            Target(
                f"HBase: {SELECTION_EPOCH}: share of putMultiple", 0.5, rates[SELECTION_EPOCH].share, why=WHY_SELECTION
            ),
        ),
        notes=(
            "Shares of the limits, median of the ratios of each run: "
            + ", ".join(f"{x}: {r.share:.2f}" for x, r in rates.items() if r.limit)
            + ".",
            "An update is two rows of the log: before and after.",
            "An epoch goes from its intent to its commit, with Spark's job in between. `refresh` first waits for a "
            "round of barriers through HBase's replication; `run` does not. Trimming goes on beside the next epochs. "
            "The last step includes the round, and waits for the trimming.",
            "The resolver keeps the images that it has written last in memory, so it reads none of them here.",
            PROCESSES + ".",
        ),
        log_y=True,
    )


NOTE = (
    "resolver: reads as many rows as there are images, then puts as many; epoch of SUM: reads the same log, then puts "
    "one row per group; selection: puts one row per selected row. All with up to 8 connections of one process"
)
WHY_SUM = (
    "a group is two rows of HBase, its accumulator and its row in the view; the accumulators are read first, and all "
    "writes are staged before they count. The limit puts one row per group, in a tenth of a second, about as long as a "
    "Spark job takes that does nothing"
)

WHY_SELECTION = "an epoch also reads the log, runs a Spark job, and stages all writes durably before it decides on them"


def _measure_sum(size: Size) -> dict[str, Rates]:
    rates = {name: Rates([], []) for name in (RESOLVER, READING, SUM_EPOCH, REFRESH)}
    rng, count = np.random.default_rng(21), size.hbase_epoch
    with bench_store() as made, limit_table() as plain:
        create_view(made.db, "v", SUM)
        for run in range(1 + WARMUP + size.repeats):  # the first run inserts, later ones update
            _write(made, rng, np.arange(count))
            resolving = _time_resolver(made)
            reading = _time_log(made)
            refreshing, epoch = _time_epoch(made)
            trimming = time_call(made.store.finish_trimming)[0]
            images = _time_images(plain, count, run)
            groups = time_puts(plain, row_keys(rng, max(epoch.view_rows, 1)), run + 1)
            if run > WARMUP:
                rates[RESOLVER].ours.append(count / resolving)
                rates[RESOLVER].limit.append(count / images)
                rates[READING].ours.append(count / reading)
                rates[SUM_EPOCH].ours.append(count / epoch.seconds)
                rates[SUM_EPOCH].limit.append(count / (reading + groups))
                rates[REFRESH].ours.append(count / (resolving + refreshing + trimming))
        verify_views(made.db)
    return rates


def _measure_selection(size: Size) -> Rates:
    rates, rng, count = Rates([], []), np.random.default_rng(22), size.hbase_epoch
    with bench_store() as made, limit_table() as plain:
        create_view(made.db, "v", SELECTION)
        for run in range(WARMUP + size.repeats):
            _write(made, rng, np.arange(run * count, (run + 1) * count))
            _time_resolver(made)
            _, epoch = _time_epoch(made)
            made.store.finish_trimming()
            puts = time_puts(plain, row_keys(rng, max(epoch.view_rows, 1)), run + 1)
            if run >= WARMUP:
                rates.ours.append(count / epoch.seconds)
                rates.limit.append(count / puts)
        verify_views(made.db)
    return rates


def _write(made: BenchStore, rng: np.random.Generator, ids: np.ndarray) -> None:
    """Writes rows, and waits until all are in the raw log."""
    made.db.table(TABLE).put_many(workloads.random_rows(rng, ids))
    marks = made.store.client.table(f"{made.namespace}:marks", b"m")
    _wait_until_still(lambda: {region: mark.sequence for region, mark in read_marks(marks).items()})


def _wait_until_still(read: Callable[[], object]) -> None:
    """Waits until what is read has not changed for a while."""
    seen, since = read(), time.monotonic()
    while time.monotonic() - since < QUIET:
        time.sleep(QUIET / 10)
        if (now := read()) != seen:
            seen, since = now, time.monotonic()


def _time_resolver(made: BenchStore) -> float:
    """Seconds in which the resolver makes transactions of everything that is shipped."""
    return time_call(made.store.advance)[0]


def _time_epoch(made: BenchStore) -> tuple[float, Epoch]:
    """Seconds of a refresh, which has one epoch, and that epoch."""
    epochs: list[Epoch] = []
    seconds, _ = time_call(lambda: made.db.refresh(epochs.append))
    [epoch] = epochs
    return seconds, epoch


def _time_log(made: BenchStore) -> float:
    """Seconds in which this process reads the log after the committed cut, two columns of it."""
    store, table = made.store, inside(made.db).catalog.table(TABLE)
    start, end = read_committed(store).cut, store.newest_cut()

    def read() -> int:
        return sum(b.num_rows for node in range(store.nodes) for b in store.deltas(table, node, start, end, [1, 2]))

    return time_call(read)[0]


def _time_images(plain: HbaseTable, count: int, run: int) -> float:
    keys = row_keys(np.random.default_rng(23), count)  # the same in each run: all but the first one read rows
    return time_look_ups(plain, keys) + time_puts(plain, keys, run + 1)
