"""What an epoch costs: by the size of its delta, and by the size of the table beneath."""

from __future__ import annotations

import itertools
from collections.abc import Sequence

import numpy as np

import tailrace as tr
from tailrace_bench import bounds, workloads
from tailrace_bench.experiments.aggregates import EXTREMES, SUM
from tailrace_bench.harness import check, create, epochs, line, median, short
from tailrace_bench.results import Result, Target, Whose
from tailrace_bench.size import Size

FILTER = "SELECT id, grp, amount FROM ops WHERE amount < 500"
JOIN = "SELECT o.id, o.amount, g.name FROM ops o JOIN groups g ON o.grp = g.id"
KINDS = {"SUM, COUNT": SUM, "MIN, MAX": EXTREMES, "selection": FILTER, "join": JOIN}
SECONDS = "seconds of an epoch"
CHANGES = 10_000
NOISE = 1.25  # times that two equal epochs may differ
WHY = (
    "nothing is computed or read that a small table does not need, but random keys of a large one lie each on a page "
    "of its own, and a durable commit writes all pages that changed: a join's epoch of 10k operations changes up to "
    "30k (reckoned, not counted), of the view and of its arrangement, where a table of 100k rows has not that many"
)
SMALL_WARM = 3  # small epochs that do not count: they are soon done, and soon warm

Points = list[tuple[int, list[float]]]


def _groups(db: tr.Database) -> None:
    db.sql("CREATE TABLE groups (id BIGINT PRIMARY KEY, name STRING)")
    db.table("groups").put_many([{"id": i, "name": f"group {i}"} for i in range(workloads.GROUPS)])


def delta(size: Size) -> Result:
    """Epochs of more and more operations."""
    found = {kind: _by_delta(size, KINDS[kind]) for kind in ("SUM, COUNT", "selection")}
    scans = found["SUM, COUNT"][1]
    ours = {kind: points for kind, (points, _) in found.items()}
    return Result(
        name="delta",
        title="Cost of an epoch by its delta",
        question=f"How long is an epoch of so many operations on {short(size.keys)} keys?",
        x="operations of the epoch",
        y=SECONDS,
        lines=(
            *(line(kind, Whose.TAILRACE, points) for kind, points in ours.items()),
            line(bounds.SCAN, Whose.LIMIT, scans, "reads the log of the epoch and sums a column"),
        ),
        targets=tuple(
            Target(
                f"{kind}: growth of the cost over growth of the delta, at most between two sizes",
                NOISE,
                _steepest(points),
                at_least=False,
            )
            for kind, points in ours.items()
        ),
        notes=("1 is linear; less means that what every epoch costs is spread over more operations.",),
        log_x=True,
        log_y=True,
    )


def _by_delta(size: Size, sql: str) -> tuple[Points, Points]:
    rng = np.random.default_rng(12)
    points: Points = []
    scans: Points = []
    with workloads.store() as db:
        workloads.fill(db, rng, size.keys)
        create(db, "v", sql)
        for operations in size.deltas:
            scanned: list[float] = []

            def write() -> None:
                workloads.operate(db, rng, operations, size.keys)  # noqa: B023
                scanned.append(bounds.scan_log(db, "ops"))  # noqa: B023

            warm = SMALL_WARM if operations <= CHANGES else 1
            points.append((operations, [m.seconds for m in epochs(db, write, size.repeats, warm)]))
            scans.append((operations, scanned[warm:]))
        check(db)
    return points, scans


def _steepest(points: Sequence[tuple[int, list[float]]]) -> float:
    """The most by which the cost grew faster than the delta."""
    return max(
        (median(later) / median(sooner)) / (more / fewer)
        for (fewer, sooner), (more, later) in itertools.pairwise(points)
    )


def size(size: Size) -> Result:
    """Epochs of 10k operations, over larger and larger tables.

    Ten thousand random keys of a small table share its few pages; of a large one each lies on a page of its own,
    which a durable commit writes. That is what views that keep a row per row of the table pay, and no more.
    """
    found: dict[str, Points] = {kind: [] for kind in KINDS}
    rng, have = np.random.default_rng(13), 0
    with workloads.store() as db:
        _groups(db)
        for rows in size.tables:
            workloads.fill(db, rng, rows - have, start=have)
            have = rows
            for kind, sql in KINDS.items():
                create(db, "v", sql)
                measured = epochs(db, lambda: workloads.operate(db, rng, CHANGES, rows), size.repeats + 2, SMALL_WARM)  # noqa: B023
                found[kind].append((rows, [m.seconds for m in measured]))
                check(db)
                db.drop("v")
    return Result(
        name="size",
        title="Cost of an epoch by the size of the table",
        question=f"How long is an epoch of {short(CHANGES)} operations on a table of so many rows?",
        x="rows of the table",
        y=SECONDS,
        lines=tuple(line(kind, Whose.TAILRACE, points) for kind, points in found.items()),
        targets=tuple(
            Target(
                f"{kind}: {short(size.tables[-1])} rows, times the cost at {short(size.tables[0])}",
                NOISE,
                median(points[-1][1]) / median(points[0][1]),
                at_least=False,
                why=WHY,
            )
            for kind, points in found.items()
        ),
        log_x=True,
    )
