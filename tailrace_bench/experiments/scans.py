"""Three ways to a count by group: the client scans the table, Spark scans it, or there is a view."""

from __future__ import annotations

import numpy as np
import pyarrow as pa

import tailrace as tr
from tailrace_bench import workloads
from tailrace_bench.harness import check, create, line, short
from tailrace_bench.measure import timed
from tailrace_bench.results import Result, Whose
from tailrace_bench.size import Size

GROUPS = 1_000
COUNT = "SELECT grp, COUNT(*) AS n FROM ops GROUP BY grp"
READS = 200  # point reads are so short that many are timed at once


def scans(size: Size) -> Result:
    """The time until a client has the newest counts."""
    rng, have = np.random.default_rng(14), 0
    ways = ("client scan", "server scan (Spark)", "view, all rows", "view, one row")
    found: dict[str, list[tuple[int, list[float]]]] = {way: [] for way in ways}
    with workloads.store() as db:
        create(db, "counts", COUNT)
        for rows in size.tables:
            workloads.fill(db, rng, rows - have, start=have, groups=GROUPS)
            have = rows
            db.refresh()
            check(db)
            for way, seconds in zip(ways, _timed(db, rng, size.repeats), strict=True):
                found[way].append((rows, seconds))
    notes = {
        "client scan": "reads all rows through the client's interface and counts them in Arrow",
        "server scan (Spark)": "db.query: two tasks scan the table, Spark merges",
        "view, one row": "view.get(key)",
        "view, all rows": f"view.scan(): {GROUPS} rows",
    }
    return Result(
        name="scans",
        title="Reading a view against scanning the table",
        question=f"How long does a client wait for {short(GROUPS)} counts by group, by the size of the table?",
        x="rows of the table",
        y="seconds",
        lines=tuple(
            line(way, Whose.TAILRACE if way.startswith("view") else Whose.PEER, found[way], notes[way]) for way in ways
        ),
        log_x=True,
        log_y=True,
    )


def _timed(db: tr.Database, rng: np.random.Generator, repeats: int) -> tuple[list[float], ...]:
    """Seconds of each way, after one run to get warm."""
    view, keys = db.view("counts"), rng.integers(0, GROUPS, READS).tolist()
    ways = (
        lambda: _client(db),
        lambda: db.query(COUNT),
        view.scan,
        lambda: [view.get(key) for key in keys],
    )
    taken = tuple([timed(way)[0] for _ in range(repeats + 1)][1:] for way in ways)
    return (*taken[:3], [seconds / READS for seconds in taken[3]])


def _client(db: tr.Database) -> pa.Table:
    parts = [
        pa.Table.from_batches([b]).group_by("grp").aggregate([([], "count_all")]) for b in db.table("ops").batches()
    ]
    return pa.concat_tables(parts).group_by("grp").aggregate([("count_all", "sum")])
