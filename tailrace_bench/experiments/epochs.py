"""The cost of an epoch, by the size of its delta and by the size of the base table."""

from __future__ import annotations

import itertools
from collections.abc import Sequence

import numpy as np

import tailrace as tr
from tailrace_bench import bounds, workloads
from tailrace_bench.experiments.aggregates import EXTREMES, SUM
from tailrace_bench.harness import create_view, make_line, median, short_count, time_epochs, verify_views
from tailrace_bench.results import Result, Target, Whose
from tailrace_bench.size import Size

FILTER = "SELECT id, grp, amount FROM ops WHERE amount < 500"
JOIN = "SELECT o.id, o.amount, g.name FROM ops o JOIN groups g ON o.grp = g.id"
KINDS = {"SUM, COUNT": SUM, "MIN, MAX": EXTREMES, "selection": FILTER, "join": JOIN}
SECONDS = "seconds per epoch"
CHANGES = 10_000
NOISE = 1.25  # ratio by which two equal epochs may differ
WHY = (
    "a larger table needs no more computation and no more reads, but each random key of a large table lies on its own "
    "page, and a durable commit writes every changed page. An epoch of 10k operations on the join changes up to 30k "
    "pages of the view and its arrangement (estimated, not counted); with a table of 100k rows they do not have that "
    "many pages"
)
SMALL_WARMUP = 3  # warm-up epochs of small deltas, which are cheap

Points = list[tuple[int, list[float]]]


def _groups(db: tr.Database) -> None:
    db.sql("CREATE TABLE groups (id BIGINT PRIMARY KEY, name STRING)")
    db.table("groups").put_many([{"id": i, "name": f"group {i}"} for i in range(workloads.GROUPS)])


def delta(size: Size) -> Result:
    """Epoch time, by the number of operations."""
    measured = {kind: _measure_deltas(size, KINDS[kind]) for kind in ("SUM, COUNT", "selection")}
    scans = measured["SUM, COUNT"][1]
    ours = {kind: points for kind, (points, _) in measured.items()}
    return Result(
        name="delta",
        title="Epoch time by delta size",
        question="How long does an epoch take, by its number of operations? "
        f"The table has {short_count(size.keys)} keys.",
        x="operations in the epoch",
        y=SECONDS,
        lines=(
            *(make_line(kind, Whose.TAILRACE, points) for kind, points in ours.items()),
            make_line(bounds.LOG_SCAN, Whose.LIMIT, scans, "reads the log of the epoch and sums one column"),
        ),
        targets=tuple(
            Target(
                f"{kind}: cost growth divided by delta growth, worst step between two sizes",
                NOISE,
                _worst_growth(points),
                at_least=False,
            )
            for kind, points in ours.items()
        ),
        notes=(
            "A quotient of 1 is linear growth; below 1, the fixed cost of an epoch is spread over more operations.",
        ),
        log_x=True,
        log_y=True,
    )


def _measure_deltas(size: Size, sql: str) -> tuple[Points, Points]:
    """Seconds of epochs and of log scans, by the number of operations."""
    rng = np.random.default_rng(12)
    points: Points = []
    scans: Points = []
    with workloads.temporary_store() as db:
        workloads.insert_rows(db, rng, size.keys)
        create_view(db, "v", sql)
        for operations in size.delta_sizes:
            scanned: list[float] = []

            def write() -> None:
                workloads.apply_operations(db, rng, operations, size.keys)  # noqa: B023
                scanned.append(bounds.time_log_scan(db, "ops"))  # noqa: B023

            warmup = SMALL_WARMUP if operations <= CHANGES else 1
            points.append((operations, [t.seconds for t in time_epochs(db, write, size.repeats, warmup)]))
            scans.append((operations, scanned[warmup:]))
        verify_views(db)
    return points, scans


def _worst_growth(points: Sequence[tuple[int, list[float]]]) -> float:
    """The largest quotient of cost growth and delta growth between two neighbouring sizes."""
    return max(
        (median(larger_cost) / median(smaller_cost)) / (larger / smaller)
        for (smaller, smaller_cost), (larger, larger_cost) in itertools.pairwise(points)
    )


def size(size: Size) -> Result:
    """Time of an epoch of 10k operations, by the size of the table.

    Ten thousand random keys of a small table share a few pages. In a large table each key lies on its own page, and a
    durable commit writes them all. Only views that keep a row per table row pay this.
    """
    points_by_kind: dict[str, Points] = {kind: [] for kind in KINDS}
    rng, inserted = np.random.default_rng(13), 0
    with workloads.temporary_store() as db:
        _groups(db)
        for rows in size.table_sizes:
            workloads.insert_rows(db, rng, rows - inserted, start=inserted)
            inserted = rows
            for kind, sql in KINDS.items():
                create_view(db, "v", sql)

                def write() -> None:
                    workloads.apply_operations(db, rng, CHANGES, rows)  # noqa: B023

                timings = time_epochs(db, write, size.repeats + 2, SMALL_WARMUP)
                points_by_kind[kind].append((rows, [t.seconds for t in timings]))
                verify_views(db)
                db.drop("v")
    return Result(
        name="size",
        title="Epoch time by table size",
        question=f"How long does an epoch of {short_count(CHANGES)} operations take, by the size of the table?",
        x="rows in the table",
        y=SECONDS,
        lines=tuple(make_line(kind, Whose.TAILRACE, points) for kind, points in points_by_kind.items()),
        targets=tuple(
            Target(
                f"{kind}: cost at {short_count(size.table_sizes[-1])} rows as a multiple of the cost at "
                f"{short_count(size.table_sizes[0])} rows",
                NOISE,
                median(points[-1][1]) / median(points[0][1]),
                at_least=False,
                why=WHY,
            )
            for kind, points in points_by_kind.items()
        ),
        log_x=True,
    )
