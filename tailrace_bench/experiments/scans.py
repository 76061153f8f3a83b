"""Three ways to get counts by group: a client scan of the table, a scan by Spark, and reading a view."""

from __future__ import annotations

import numpy as np
import pyarrow as pa

import tailrace as tr
from tailrace_bench import workloads
from tailrace_bench.harness import create_view, make_line, short_count, verify_views
from tailrace_bench.measure import time_call
from tailrace_bench.results import Result, Whose
from tailrace_bench.size import Size

GROUPS = 1_000
COUNT = "SELECT grp, COUNT(*) AS n FROM ops GROUP BY grp"
READS = 200  # one point read is too short to time alone


def scans(size: Size) -> Result:
    """Seconds until a client has the current counts."""
    rng, inserted = np.random.default_rng(14), 0
    ways = ("client scan", "server scan (Spark)", "view, all rows", "view, one row")
    points: dict[str, list[tuple[int, list[float]]]] = {way: [] for way in ways}
    with workloads.temporary_store() as db:
        create_view(db, "counts", COUNT)
        for rows in size.table_sizes:
            workloads.insert_rows(db, rng, rows - inserted, start=inserted, groups=GROUPS)
            inserted = rows
            db.refresh()
            verify_views(db)
            for way, seconds in zip(ways, _measure_ways(db, rng, size.repeats), strict=True):
                points[way].append((rows, seconds))
    notes = {
        "client scan": "reads all rows through the client API and counts them in Arrow",
        "server scan (Spark)": "db.query: two tasks scan the table, Spark merges the counts",
        "view, one row": "view.get(key)",
        "view, all rows": f"view.scan(): {GROUPS} rows",
    }
    return Result(
        name="scans",
        title="Reading a view versus scanning the table",
        question=f"How long does a client wait for {short_count(GROUPS)} counts by group, by the size of the table?",
        x="rows in the table",
        y="seconds",
        lines=tuple(
            make_line(way, Whose.TAILRACE if way.startswith("view") else Whose.PEER, points[way], notes[way])
            for way in ways
        ),
        log_x=True,
        log_y=True,
    )


def _measure_ways(db: tr.Database, rng: np.random.Generator, repeats: int) -> tuple[list[float], ...]:
    """Seconds of each way, after one warm-up run."""
    view, keys = db.view("counts"), rng.integers(0, GROUPS, READS).tolist()
    ways = (
        lambda: _count_in_client(db),
        lambda: db.query(COUNT),
        view.scan,
        lambda: [view.get(key) for key in keys],
    )
    seconds = tuple([time_call(way)[0] for _ in range(repeats + 1)][1:] for way in ways)
    return (*seconds[:3], [each / READS for each in seconds[3]])


def _count_in_client(db: tr.Database) -> pa.Table:
    parts = [
        pa.Table.from_batches([b]).group_by("grp").aggregate([([], "count_all")]) for b in db.table("ops").batches()
    ]
    return pa.concat_tables(parts).group_by("grp").aggregate([("count_all", "sum")])
