"""Many views: how fast they are written together, and how creation and epoch time grow with their number."""

from __future__ import annotations

import time
from collections.abc import Sequence

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

import tailrace as tr
from tailrace.database.ddl import TOGETHER
from tailrace_bench import bounds, workloads
from tailrace_bench.experiments.aggregates import RATE
from tailrace_bench.harness import (
    WARMUP_EPOCHS,
    RefreshTiming,
    create_view,
    make_line,
    median,
    short_count,
    time_epochs,
    time_refresh,
    verify_views,
)
from tailrace_bench.measure import time_call
from tailrace_bench.results import Result, Target, Whose
from tailrace_bench.size import Size

RECORD = 1_100_000  # view updates per second, the papers' peak with up to 400 view servers
UPDATES = "view updates per second"
TABLES = 10
STEPS = 1_000  # distinct values of `amount`, which the selections filter by
STRIDE = 317  # distance between the ranges of two views; prime, so that a few views spread as evenly as many
TABLE_COUNTS = (5, 10, 20)
WHY_TABLES = (
    "an epoch of 2M view rows writes only 156 rows to each of the 12,800 views, in four shards, so the fixed cost per "
    "view in Arrow and LMDB dominates; see Profiles"
)
WHY = "most of the time goes into building LMDB entries and putting them; see Profiles"
CHANGES = 10_000  # operations per epoch of `views`

_KINDS = (
    "SELECT id, grp, amount FROM {table} WHERE amount BETWEEN {n} AND {n} + 9",
    "SELECT id, amount * {n} + other AS value FROM {table} WHERE grp % 100 = {n} % 100",
    "SELECT grp % ({n} + 2) AS part, SUM(amount) AS total, COUNT(*) AS n FROM {table} GROUP BY 1",
    "SELECT other % 10 AS part, AVG(amount) AS mean FROM {table} WHERE amount > {n} GROUP BY 1",
    "SELECT grp % 50 AS part, MIN(other) AS lo, MAX(other) AS hi FROM {table} WHERE amount < {n} + 10 GROUP BY 1",
)


def _range(number: int) -> tuple[int, int]:
    """The range of values that a selection selects: about half. No two selections of a table have the same range."""
    half = STEPS // 2
    low = number * STRIDE % half
    return low, low + half + number // half


def _create_selections(db: tr.Database, count: int, tables: Sequence[str]) -> float:
    """Creates selections over these tables in turn, each with its own range. Returns the seconds per view."""
    statements = []
    for number in range(count):
        low, high = _range(number // len(tables))
        query = f"SELECT id, grp, amount FROM {tables[number % len(tables)]} WHERE amount >= {low} AND amount < {high}"
        statements.append(f"CREATE MATERIALIZED VIEW v{number} AS {query}")
    parts = [statements[begin : begin + TOGETHER] for begin in range(0, count, TOGETHER)]
    return time_call(lambda: [db.sql(";\n".join(part)) for part in parts])[0] / count


class _Inserts:
    """Each call inserts new rows, spread evenly over the tables."""

    def __init__(self, db: tr.Database, seed: int, tables: Sequence[str]) -> None:
        self._db, self._rng, self._tables, self._next = db, np.random.default_rng(seed), tables, 0
        self.last = pa.table({})

    def __call__(self, operations: int) -> None:
        each = max(1, operations // len(self._tables))
        for name in self._tables:
            self.last = workloads.random_rows(self._rng, np.arange(each) + self._next)
            for begin in range(0, each, 4 * workloads.BATCH):
                self._db.table(name).put_many(self.last.slice(begin, 4 * workloads.BATCH))
        self._next += each


def selections(size: Size) -> Result:
    """Many selections of one table."""
    count = size.selections
    rates, limits = [], []
    with workloads.temporary_store() as db:
        _create_selections(db, count, ["ops"])
        insert = _Inserts(db, 8, ["ops"])
        for run in range(WARMUP_EPOCHS + size.repeats):
            insert(2 * size.view_rows // count)
            epoch = time_refresh(db)
            if run >= WARMUP_EPOCHS:
                rates.append(epoch.row_rate)
                limits.append(bounds.measure_lmdb_writes(_expected_view_rows(insert.last, count), 2))
        verify_views(db)
    return Result(
        name="selections",
        title="Many selections of one table",
        question=f"How many view rows per second are computed and written when {count} selections share one table? "
        f"Each epoch writes {short_count(size.view_rows)} view rows.",
        x="selections",
        y=UPDATES,
        lines=(
            make_line("Tailrace", Whose.TAILRACE, [(count, rates)]),
            make_line(bounds.LMDB_ROWS, Whose.LIMIT, [(count, [w.rows for w in limits])], bounds.LMDB_ROWS_NOTE),
            make_line(bounds.LMDB_PAIRS, Whose.LIMIT, [(count, [w.pairs for w in limits])], bounds.LMDB_PAIRS_NOTE),
        ),
        targets=(Target(f"{count} selections of one table: view updates per second", RECORD, median(rates), why=WHY),),
    )


def _expected_view_rows(rows: pa.Table, count: int) -> pa.Table:
    """The rows of all selections, keyed by the number of the view and the id."""
    parts = []
    for number in range(count):
        low, high = _range(number)
        amount = rows["amount"]
        chosen = rows.filter(pc.and_(pc.greater_equal(amount, low), pc.less(amount, high)))
        view = pa.array(np.full(chosen.num_rows, number, np.int32))
        parts.append(chosen.select(["id", "grp", "amount"]).add_column(0, "view", view))
    return pa.concat_tables(parts).combine_chunks()


def multiquery(size: Size) -> Result:
    """The same number of selections over 5, 10 and 20 tables."""
    timings: list[tuple[int, list[RefreshTiming]]] = []
    for count in TABLE_COUNTS:
        tables = [f"t{i}" for i in range(count)]
        operations = min(size.medium_epoch, 2 * size.view_rows * count // size.selections)
        with workloads.temporary_store(tables) as db:
            _create_selections(db, size.selections, tables)
            insert = _Inserts(db, 9, tables)
            timings.append((count, time_epochs(db, lambda: insert(operations), size.repeats)))  # noqa: B023
            verify_views(db)
    return Result(
        name="multiquery",
        title="Many queries over several tables",
        question=f"How many operations per second can {size.selections} selections apply together, by the number of "
        "tables they are spread over?",
        x="base tables",
        y=RATE,
        lines=(make_line("Tailrace", Whose.TAILRACE, [(count, [t.rate for t in ts]) for count, ts in timings]),),
        notes=(
            "View updates per second: "
            + ", ".join(f"{count} tables: {median([t.row_rate for t in ts]):,.0f}" for count, ts in timings)
            + ".",
        ),
    )


def viewtables(size: Size) -> Result:
    """View updates per second, by the number of view tables."""
    tables = [f"t{i}" for i in range(TABLES)]
    rates: list[tuple[int, list[float]]] = []
    creation_seconds: list[tuple[int, float]] = []
    began, most = time.monotonic(), size.view_table_counts[-1]
    for count in size.view_table_counts:
        if creation_seconds and time.monotonic() - began + count * creation_seconds[-1][1] > size.creation_limit:
            break
        # A new store each time: views over tables with rows would first be built, not maintained.
        with workloads.temporary_store(tables) as db:
            creation_seconds.append((count, _create_selections(db, count, tables)))
            insert = _Inserts(db, 10, tables)
            operations = max(TABLES, 2 * TABLES * size.view_rows // count)
            timings = time_epochs(db, lambda: insert(operations), size.repeats)  # noqa: B023
            verify_views(db)
        rates.append((count, [t.row_rate for t in timings]))
    last, last_rates = rates[-1]
    return Result(
        name="viewtables",
        title="Many view tables",
        question="How many view rows per second are computed and written, by the number of view tables? The views are "
        f"selections of {TABLES} tables; each epoch writes {short_count(size.view_rows)} view rows.",
        x="view tables",
        y=UPDATES,
        lines=(make_line("Tailrace", Whose.TAILRACE, rates),),
        targets=(
            Target(f"{most:,} view tables: largest number measured", most, last),
            Target(f"{last:,} view tables: view updates per second", RECORD / 3, median(last_rates), why=WHY_TABLES),
        ),
        notes=(
            "Seconds to create one view, by number of views: "
            + ", ".join(f"{count:,}: {s:.3f}" for count, s in creation_seconds)
            + ".",
        ),
        log_x=True,
    )


def views(size: Size) -> Result:
    """Creation and epoch time of views of five kinds over three tables, by the number of views."""
    tables, rng = ("ops", "sales", "moves"), np.random.default_rng(6)
    creation_seconds: list[tuple[int, list[float]]] = []
    epoch_seconds: list[tuple[int, list[float]]] = []
    with workloads.temporary_store(tables) as db:
        for name in tables:
            workloads.insert_rows(db, rng, 2 * CHANGES, name)
        for count in (max(1, size.selections // 10), size.selections, 10 * size.selections):
            seconds = []
            for number in range(len(db.views()), count):
                sql = _KINDS[number % 5].format(table=tables[number // 5 % 3], n=number)
                seconds.append(time_call(lambda: create_view(db, f"v{number}", sql))[0])  # noqa: B023
            creation_seconds.append((count, seconds))

            def change() -> None:
                for name in tables:
                    workloads.apply_operations(db, rng, CHANGES // len(tables), 2 * CHANGES, name)

            epoch_seconds.append((count, [t.seconds for t in time_epochs(db, change, size.repeats, warmup=2)]))
        verify_views(db)
    return Result(
        name="views",
        title="Views of several kinds",
        question="How long does it take to create a view, and how long does an epoch of "
        f"{short_count(CHANGES)} operations take, by the number of views over three tables?",
        x="views",
        y="seconds",
        lines=(
            make_line("one epoch", Whose.TAILRACE, epoch_seconds),
            make_line("creation of one view", Whose.TAILRACE, creation_seconds, "over tables of 20k rows"),
        ),
        log_x=True,
        log_y=True,
    )
