"""Many views: how fast they are written together, and how creation and epochs grow with their number."""

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
from tailrace_bench.harness import WARM, Measured, check, create, epochs, line, median, refreshed, short
from tailrace_bench.measure import timed
from tailrace_bench.results import Result, Target, Whose
from tailrace_bench.size import Size

RECORD = 1_100_000  # view updates per second: the papers' with 400 view servers
UPDATES = "view updates per second"
TABLES = 10
STEPS = 1_000  # values of the column that is selected by
STRIDE = 317  # between ranges, prime: a few views are spread as many are
SHARED = (5, 10, 20)
WHY_TABLES = (
    "an epoch that writes 2M rows writes 156 to each of so many views, in four shards: what counts is what a view "
    "costs before its first row, in Arrow and in LMDB; see the profile"
)
WHY = "most of the time goes into making entries for LMDB and putting them; see the profile"
CHANGES = 10_000  # operations of an epoch over views of several kinds

_KINDS = (
    "SELECT id, grp, amount FROM {table} WHERE amount BETWEEN {n} AND {n} + 9",
    "SELECT id, amount * {n} + other AS value FROM {table} WHERE grp % 100 = {n} % 100",
    "SELECT grp % ({n} + 2) AS part, SUM(amount) AS total, COUNT(*) AS n FROM {table} GROUP BY 1",
    "SELECT other % 10 AS part, AVG(amount) AS mean FROM {table} WHERE amount > {n} GROUP BY 1",
    "SELECT grp % 50 AS part, MIN(other) AS lo, MAX(other) AS hi FROM {table} WHERE amount < {n} + 10 GROUP BY 1",
)


def _range(number: int) -> tuple[int, int]:
    """The half of the values that a selection takes: no two of a table take the same."""
    half = STEPS // 2
    low = number * STRIDE % half
    return low, low + half + number // half


def _select(db: tr.Database, count: int, tables: Sequence[str]) -> float:
    """Create selections over these tables in turn, each with a range of its own; seconds that one took."""
    statements = []
    for number in range(count):
        low, high = _range(number // len(tables))
        chosen = f"SELECT id, grp, amount FROM {tables[number % len(tables)]} WHERE amount >= {low} AND amount < {high}"
        statements.append(f"CREATE MATERIALIZED VIEW v{number} AS {chosen}")
    parts = [statements[begin : begin + TOGETHER] for begin in range(0, count, TOGETHER)]
    return timed(lambda: [db.sql(";\n".join(part)) for part in parts])[0] / count


class _Inserts:
    """New rows, again and again, spread over tables."""

    def __init__(self, db: tr.Database, seed: int, tables: Sequence[str]) -> None:
        self._db, self._rng, self._tables, self._next = db, np.random.default_rng(seed), tables, 0
        self.last = pa.table({})

    def __call__(self, operations: int) -> None:
        each = max(1, operations // len(self._tables))
        for name in self._tables:
            self.last = workloads.rows(self._rng, np.arange(each) + self._next)
            for begin in range(0, each, 4 * workloads.BATCH):
                self._db.table(name).put_many(self.last.slice(begin, 4 * workloads.BATCH))
        self._next += each


def selections(size: Size) -> Result:
    """100 selections of one table."""
    count = size.queries
    rates, limits = [], []
    with workloads.store() as db:
        _select(db, count, ["ops"])
        insert = _Inserts(db, 8, ["ops"])
        for run in range(WARM + size.repeats):
            insert(2 * size.updates // count)
            epoch = refreshed(db)
            if run >= WARM:
                rates.append(epoch.row_rate)
                limits.append(bounds.write_lmdb(_selected(insert.last, count), 2))
        check(db)
    return Result(
        name="selections",
        title="Selections of one table",
        question=f"How many view rows a second are computed and written when {count} selections share a table, in "
        f"epochs that write {short(size.updates)} of them?",
        x="selections",
        y=UPDATES,
        lines=(
            line("Tailrace", Whose.TAILRACE, [(count, rates)]),
            line(bounds.ROWS, Whose.LIMIT, [(count, [w.rows for w in limits])], bounds.ROWS_NOTE),
            line(bounds.PAIRS, Whose.LIMIT, [(count, [w.pairs for w in limits])], bounds.PAIRS_NOTE),
        ),
        targets=(Target(f"{count} selections of one table: view updates per second", RECORD, median(rates), why=WHY),),
    )


def _selected(rows: pa.Table, count: int) -> pa.Table:
    """The rows of all selections, each under the number of its view."""
    parts = []
    for number in range(count):
        low, high = _range(number)
        amount = rows["amount"]
        chosen = rows.filter(pc.and_(pc.greater_equal(amount, low), pc.less(amount, high)))
        view = pa.array(np.full(chosen.num_rows, number, np.int32))
        parts.append(chosen.select(["id", "grp", "amount"]).add_column(0, "view", view))
    return pa.concat_tables(parts).combine_chunks()


def multiquery(size: Size) -> Result:
    """100 queries over 5, 10 and 20 tables."""
    found: list[tuple[int, list[Measured]]] = []
    for count in SHARED:
        tables = [f"t{i}" for i in range(count)]
        operations = min(size.usual, 2 * size.updates * count // size.queries)
        with workloads.store(tables) as db:
            _select(db, size.queries, tables)
            insert = _Inserts(db, 9, tables)
            found.append((count, epochs(db, lambda: insert(operations), size.repeats)))  # noqa: B023
            check(db)
    return Result(
        name="multiquery",
        title="Many queries over several tables",
        question=f"How many operations a second do {size.queries} selections take on together, by the number of tables "
        "they are spread over?",
        x="base tables",
        y=RATE,
        lines=(line("Tailrace", Whose.TAILRACE, [(count, [m.rate for m in ms]) for count, ms in found]),),
        notes=(
            "View updates per second: "
            + ", ".join(f"{count} tables: {median([m.row_rate for m in ms]):,.0f}" for count, ms in found)
            + ".",
        ),
    )


def viewtables(size: Size) -> Result:
    """View updates per second, over more and more view tables."""
    tables = [f"t{i}" for i in range(TABLES)]
    found: list[tuple[int, list[float]]] = []
    created: list[tuple[int, float]] = []
    began, most = time.monotonic(), size.counts[-1]
    for count in size.counts:
        if created and time.monotonic() - began + count * created[-1][1] > size.patience:
            break
        with workloads.store(tables) as db:  # a new one: views of tables with rows would be built, not maintained
            created.append((count, _select(db, count, tables)))
            insert = _Inserts(db, 10, tables)
            operations = max(TABLES, 2 * TABLES * size.updates // count)
            measured = epochs(db, lambda: insert(operations), size.repeats)  # noqa: B023
            check(db)
        found.append((count, [m.row_rate for m in measured]))
    last, rates = found[-1]
    return Result(
        name="viewtables",
        title="View tables",
        question="How many view rows a second are computed and written over so many view tables, selections of "
        f"{TABLES} tables, in epochs that write {short(size.updates)} of them?",
        x="view tables",
        y=UPDATES,
        lines=(line("Tailrace", Whose.TAILRACE, found),),
        targets=(
            Target(f"{most:,} view tables: the most that were measured", most, last),
            Target(f"{last:,} view tables: view updates per second", RECORD / 3, median(rates), why=WHY_TABLES),
        ),
        notes=("Seconds to create a view: " + ", ".join(f"{count:,}: {s:.3f}" for count, s in created) + ".",),
        log_x=True,
    )


def views(size: Size) -> Result:
    """Views of five kinds over three tables: creation and epochs, by their number."""
    tables, rng = ("ops", "sales", "moves"), np.random.default_rng(6)
    created: list[tuple[int, list[float]]] = []
    found: list[tuple[int, list[float]]] = []
    with workloads.store(tables) as db:
        for name in tables:
            workloads.fill(db, rng, 2 * CHANGES, name)
        for count in (max(1, size.queries // 10), size.queries, 10 * size.queries):
            taken = []
            for number in range(len(db.views()), count):
                sql = _KINDS[number % 5].format(table=tables[number // 5 % 3], n=number)
                taken.append(timed(lambda: create(db, f"v{number}", sql))[0])  # noqa: B023
            created.append((count, taken))

            def change() -> None:
                for name in tables:
                    workloads.operate(db, rng, CHANGES // len(tables), 2 * CHANGES, name)

            found.append((count, [m.seconds for m in epochs(db, change, size.repeats, warm=2)]))
        check(db)
    return Result(
        name="views",
        title="Views of several kinds",
        question=f"How long does it take to create a view, and how long is an epoch of {short(CHANGES)} operations, by "
        "the number of views over three tables?",
        x="views",
        y="seconds",
        lines=(
            line("an epoch", Whose.TAILRACE, found),
            line("creation of one view", Whose.TAILRACE, created, "over tables of 20k rows"),
        ),
        log_x=True,
        log_y=True,
    )
