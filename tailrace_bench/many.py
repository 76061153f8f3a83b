"""Many views: how creation and epochs grow with their number."""

from __future__ import annotations

import statistics
import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from functools import partial
from typing import Any

import numpy as np

import tailrace as tr
from tailrace_bench import workloads
from tailrace_bench.measure import spread, timed

Figures = dict[str, Any]
TABLES = ("ops", "sales", "moves")
ROWS = 20_000  # of each table
OPERATIONS = 10_000  # of an epoch, over all tables
VIEWS = 1_000
SELECTIONS = 100
SAMPLE = 20  # views that are verified
WARM, RUNS = 2, 3
_STEP = 100  # views per measurement of creation

_KINDS = (
    "SELECT id, grp, amount FROM {table} WHERE amount BETWEEN {n} AND {n} + 9",
    "SELECT id, amount * {n} + other AS value FROM {table} WHERE grp % 100 = {n} % 100",
    "SELECT grp % ({n} + 2) AS part, SUM(amount) AS total, COUNT(*) AS n FROM {table} GROUP BY 1",
    "SELECT other % 10 AS part, AVG(amount) AS mean FROM {table} WHERE amount > {n} GROUP BY 1",
    "SELECT grp % 50 AS part, MIN(other) AS lo, MAX(other) AS hi FROM {table} WHERE amount < {n} + 10 GROUP BY 1",
)


def views(scale: float) -> Figures:
    """1,000 views over three tables; and 100 selections of one table beside a single one."""
    mixed = [_KINDS[i % 5].format(table=TABLES[i // 5 % 3], n=i) for i in range(max(5, round(VIEWS * scale)))]
    selected = [_KINDS[0].format(table=TABLES[0], n=5 * i) for i in range(max(2, round(SELECTIONS * scale)))]
    rng = np.random.default_rng(6)
    with _filled(rng) as db:
        many = {**_create(db, mixed), **_epochs(db, rng, TABLES), **_verified(db, rng)}
    with _filled(rng) as db:
        one = {**_create(db, selected[:1]), **_epochs(db, rng, TABLES[:1])}
        all_ = {**_create(db, selected[1:]), **_epochs(db, rng, TABLES[:1]), **_verified(db, rng)}
    return {
        "rows_per_table": ROWS,
        "mixed": many,
        "one_selection": one,
        "selections": all_,
        "selections_of_one": round(all_["epoch_seconds"]["median"] / one["epoch_seconds"]["median"], 2),
        "wrong": {**many.pop("wrong"), **all_.pop("wrong")},
    }


@contextmanager
def _filled(rng: np.random.Generator) -> Iterator[tr.Database]:
    with workloads.store(TABLES) as db:
        for name in TABLES:
            workloads.fill(db, rng, ROWS, name)
        yield db


def _epochs(db: tr.Database, rng: np.random.Generator, tables: Sequence[str]) -> Figures:
    """Epochs of operations on these tables."""
    seconds, rows = [], []
    for _ in range(WARM + RUNS):
        operations = sum(workloads.operate(db, rng, OPERATIONS // len(tables), ROWS, name) for name in tables)
        taken, epoch = timed(db.refresh)
        seconds.append(taken)
        rows.append(epoch.view_rows)
    print(f"  {epoch.views} views: epoch {statistics.median(seconds[WARM:]):.2f} s", file=sys.stderr, flush=True)
    return {
        "views": epoch.views,
        "first_epoch_seconds": round(seconds[0], 4),
        "epoch_seconds": spread(seconds[WARM:]),
        "operations": operations,
        "view_rows": round(statistics.median(rows[WARM:])),
    }


def _create(db: tr.Database, queries: Sequence[str]) -> Figures:
    taken: list[float] = []
    for number, sql in enumerate(queries, len(db.views())):
        taken.append(timed(partial(db.sql, f"CREATE MATERIALIZED VIEW v{number} AS {sql}"))[0])
        if (number + 1) % _STEP == 0:
            latest = statistics.mean(taken[-_STEP:])
            print(f"  {number + 1} views created, the last {latest:.2f} s each", file=sys.stderr, flush=True)
    return {
        "create_seconds": round(sum(taken), 3),
        "create_first_seconds": round(statistics.median(taken[:_STEP]), 4),
        "create_last_seconds": round(statistics.median(taken[-_STEP:]), 4),
    }


def _verified(db: tr.Database, rng: np.random.Generator) -> Figures:
    names = db.views()
    sample = rng.choice(names, min(SAMPLE, len(names)), replace=False).tolist()
    reports = [db.verify(name) for name in sample]
    return {"verified": len(sample), "wrong": {r.view: str(r) for r in reports if not r.ok}}
