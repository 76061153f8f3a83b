"""Views built chunk by chunk are exact while other views are refreshed and tables change, and resume after a stop."""

from __future__ import annotations

import itertools
import random
import signal
import subprocess
import sys
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from msgspec import structs
from oracle import WIDE, Model, random_row, random_step
from stored import needed_states, stored_states

import tailrace as tr
from tailrace.catalog import construction
from tailrace.catalog.construction import this_owner
from tailrace.database.inside import inside
from tailrace.database.progress import Step
from tailrace.errors import BeingBuilt, BuildFailed, InUse

VIEWS = {
    "flat": "SELECT id, n * 2 AS n2 FROM a WHERE n > 0",
    "totals": "SELECT g, SUM(p) AS s, COUNT(*) AS n, MIN(h) AS lo, COUNT(DISTINCT d) AS d, SUM(x) x FROM a GROUP BY g",
    "pairs": "SELECT a.id, c.id AS cid, c.tag, a.p FROM a JOIN c ON a.g = c.g",
    "selves": "SELECT l.id, r.id AS other FROM a l JOIN a r ON l.g = r.g AND l.h = r.h",
    "lonely": "SELECT a.id, c.tag, c.n FROM a LEFT JOIN c ON a.id = c.id",
    "none": "SELECT COUNT(*) AS n, MAX(p) AS m FROM a WHERE id < 0",
    "bag": "SELECT g, h FROM a UNION ALL SELECT g, h FROM c",
    "top": "SELECT id, n FROM a ORDER BY n DESC NULLS LAST, id LIMIT 3",
    "larger": "SELECT id, n FROM a WHERE n > (SELECT AVG(n) FROM c) OR g IN (SELECT g FROM c WHERE b)",
}


@pytest.fixture
def db(tmp_path: Path, spark: Any) -> Iterator[tr.Database]:
    with tr.open(tmp_path / "s", create=True, spark=spark, map_size=1 << 30) as database:
        database.sql(f"CREATE TABLE a (id INT PRIMARY KEY, {WIDE})")
        database.sql(f"CREATE TABLE c (id INT, tag STRING, {WIDE}, PRIMARY KEY (id, tag))")
        yield database


class Interrupt(BaseException):
    pass


def create(name: str) -> str:
    return f"CREATE MATERIALIZED VIEW {name} AS {VIEWS[name]}"


@pytest.mark.parametrize("name", list(VIEWS))
def test_a_view_built_in_chunks_is_exact_though_tables_change(db: tr.Database, name: str) -> None:
    rng, model = random.Random(name), Model(db)
    inside(db).builder.chunk = 9
    model.put("a", [{**random_row(rng), "id": i} for i in range(100, 130)])
    for _ in range(8):
        random_step(rng, model, rng.choice("aac"), 30)
    db.sql("CREATE MATERIALIZED VIEW other WITH (refresh = 'auto') AS SELECT g, COUNT(*) AS n FROM a GROUP BY g")
    steps: list[Step] = []

    def on_step(step: Step) -> None:
        steps.append(step)
        for _ in range(3):
            random_step(rng, model, rng.choice("aac"), 30)
        if step.rows and rng.random() < 0.5:
            db.refresh()  # other views are refreshed meanwhile, and the build continues

    db.sql(create(name), progress=on_step)
    counted = [s.rows for s in steps if s.rows is not None]
    assert len(counted) > 1
    assert counted == sorted(counted)
    assert str(steps[-1]).startswith(f"building {name}: ")
    db.refresh()
    model.check()
    for _ in range(5):
        random_step(rng, model, rng.choice("aac"), 30)
    db.refresh()
    model.check()
    assert stored_states(db) <= needed_states(db), "private states of the build that no view shares are removed"
    assert db.status().building == []


def fill(db: tr.Database, rows: int) -> None:
    db.table("a").put_many([{"id": i, "g": i % 5, "h": "x", "n": i} for i in range(rows)])
    db.table("c").put_many([{"id": i, "tag": "t", "g": i % 7, "h": "y"} for i in range(rows // 4)])
    db.refresh()


def interrupt_build(db: tr.Database, statement: str, chunks: int) -> int:
    """Start a build and interrupt it after some chunks. Returns the number of rows built."""
    rows = 0

    def on_step(step: Step) -> None:
        nonlocal rows, chunks
        if step.rows is not None:
            rows, chunks = step.rows, chunks - 1
            if chunks == 0:
                raise Interrupt

    with pytest.raises(Interrupt):
        db.sql(statement, progress=on_step)
    return rows


def test_an_interrupted_build_continues_after_its_last_chunk(db: tr.Database) -> None:
    inside(db).builder.chunk = 20
    fill(db, 100)
    rows = interrupt_build(db, create("pairs"), 3)
    (building,) = db.status().building
    assert (building["name"], building["rows"], building["total"], building["pid"]) == ("pairs", rows, 125, None)
    assert db.views() == []
    with pytest.raises(InUse):
        db.drop("c")
    with pytest.raises(BeingBuilt):
        db.sql("CREATE MATERIALIZED VIEW pairs AS SELECT id FROM a")
    row_counts: list[int] = []
    db.sql(create("pairs"), progress=lambda s: row_counts.append(s.rows) if s.rows is not None else None)
    assert row_counts[0] > rows
    assert db.verify("pairs").ok


def test_refresh_and_run_continue_an_interrupted_build(db: tr.Database) -> None:
    inside(db).builder.chunk = 20
    fill(db, 100)
    interrupt_build(db, create("totals"), 2)
    db.table("a").put({"id": 3, "g": 50})
    db.refresh()
    assert db.views() == ["totals"]
    assert db.verify("totals").ok
    interrupt_build(db, create("pairs"), 2)
    db.run(interval=0.01, until=lambda: "pairs" in db.views())
    assert db.verify("pairs").ok


def test_refresh_does_not_touch_a_build_that_another_process_runs(db: tr.Database) -> None:
    inside(db).builder.chunk = 20
    fill(db, 100)
    rows = interrupt_build(db, create("flat"), 2)
    with subprocess.Popen([sys.executable, "-c", "input()"], stdin=subprocess.PIPE) as other:
        inside(db).catalog.own("flat", structs.replace(this_owner(), pid=other.pid, started=None))
        with pytest.raises(BeingBuilt) as error:
            db.sql(create("flat"))
        assert error.value.pid == other.pid
        db.table("a").put({"id": 1, "n": 77})
        db.refresh()
        assert (db.status().building[0]["rows"], db.status().building[0]["pid"]) == (rows, other.pid)
        other.communicate(b"\n")
    db.refresh()
    assert db.verify("flat").ok


def test_a_build_published_by_another_handle_is_complete(db: tr.Database) -> None:
    inside(db).builder.chunk = 20
    fill(db, 100)
    with tr.open(db.path, spark=db.spark) as other:
        db.sql(create("pairs"), progress=lambda step: other.refresh() if step.rows is not None else None)
        assert db.verify("pairs").ok
        interrupt_build(db, create("flat"), 2)
        take_over = inside(db).builder.take_over

        def late(name: str) -> None:
            other.refresh()
            take_over(name)

        inside(db).builder.take_over = late  # type: ignore[method-assign]
        db.sql(create("flat"))
        assert db.verify("flat").ok
        with pytest.raises(BuildFailed) as error:
            db.sql(create("totals"), progress=lambda _: other.sql("DROP VIEW IF EXISTS totals"))
        assert "dropped" in error.value.reason
        assert (db.views(), db.status().building) == (["flat", "pairs"], [])


def test_chunks_of_wide_rows_are_smaller(db: tr.Database, monkeypatch: pytest.MonkeyPatch) -> None:
    inside(db).builder.chunk = 50
    db.table("a").put_many([{"id": i, "h": "x" * 10_000} for i in range(100)])
    monkeypatch.setattr(construction, "CHUNK_BYTES", 200_000)
    steps: list[Step] = []
    db.sql(create("flat"), progress=steps.append)
    counted = [s.rows for s in steps if s.rows is not None]
    assert len(counted) >= 5
    assert max(b - a for a, b in itertools.pairwise(counted)) <= 20
    assert db.verify("flat").ok


def test_dropping_a_view_that_is_being_built(db: tr.Database) -> None:
    inside(db).builder.chunk = 20
    fill(db, 100)
    interrupt_build(db, create("pairs"), 2)
    assert stored_states(db)
    db.sql("DROP VIEW pairs")
    assert (db.status().building, stored_states(db)) == ([], set())


def test_a_build_that_fails_leaves_other_views_alone(db: tr.Database) -> None:
    inside(db).builder.chunk = 20
    fill(db, 100)
    db.sql(create("none"))
    bad = "CREATE MATERIALIZED VIEW bad AS SELECT id, assert_true(n < 70) IS NULL AS x FROM a"
    with pytest.raises(BuildFailed) as error:
        db.sql(bad)
    assert "70" in error.value.reason
    assert (db.views(), db.status().building) == (["none"], [])
    interrupt_build(db, bad, 1)
    db.table("a").put({"id": 1, "n": 5})
    db.refresh()
    (building,) = db.status().building
    assert "70" in building["failed"]
    assert db.status().lag_operations == 0
    db.sql("CREATE MATERIALIZED VIEW bad AS SELECT id FROM a")
    assert db.verify("bad").ok
    assert db.status().building == []


def test_small_views_are_built_in_one_job(db: tr.Database) -> None:
    fill(db, 100)
    steps: list[Step] = []
    before = db.status().epoch
    db.sql(create("totals"), progress=steps.append)
    assert all(s.rows is None for s in steps)
    assert db.status().epoch == before


CREATOR = """
import sys
import tailrace as tr
from tailrace.database.inside import inside
db = tr.open(sys.argv[1])
inside(db).builder.chunk = 1500
db.sql(sys.argv[2], progress=lambda step: print(step.rows or 0, flush=True))
"""


def test_a_killed_build_is_finished_by_the_next_process(tmp_path: Path, spark: Any) -> None:
    path = tmp_path / "store"
    with tr.open(path, create=True, spark=spark, map_size=1 << 30) as db:
        db.sql(f"CREATE TABLE a (id INT PRIMARY KEY, {WIDE})")
        db.sql(f"CREATE TABLE c (id INT, tag STRING, {WIDE}, PRIMARY KEY (id, tag))")
        fill(db, 20_000)
    rows = [0]
    for _ in range(2):
        with subprocess.Popen(
            [sys.executable, "-c", CREATOR, str(path), create("lonely")], stdout=subprocess.PIPE, text=True
        ) as process:
            assert process.stdout is not None
            for line in process.stdout:
                if int(line) > rows[-1]:
                    rows.append(int(line))
                    break
            threading.Timer(random.Random(rows[-1]).uniform(0, 0.8), process.send_signal, [signal.SIGKILL]).start()
            for line in process.stdout:
                rows.append(int(line))
            assert process.wait(timeout=60) == -signal.SIGKILL
    assert rows == sorted(rows), "no process started the build from the beginning"
    with tr.open(path, spark=spark) as db:
        (building,) = db.status().building
        assert (building["pid"], building["failed"]) == (None, None)
        assert building["rows"] >= rows[-1]
        inside(db).builder.chunk = 10_000
        db.table("a").put_many([{"id": i, "g": 3, "n": -i} for i in range(0, 20_000, 90)])
        db.refresh()
        assert db.views() == ["lonely"]
        assert db.verify("lonely").ok
