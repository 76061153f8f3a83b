"""CREATE OR REPLACE: readers see the old view until the new one is built and verified, then the new one."""

from __future__ import annotations

import signal
import subprocess
import sys
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from stored import needed_states, stored_states

import tailrace as tr
from tailrace.database.inside import inside
from tailrace.database.progress import Step
from tailrace.errors import BeingBuilt, BuildFailed, NameTaken, SqlError, Unsupported
from tailrace.store.pins import pinned

OLD = "SELECT g, SUM(v) AS s FROM a GROUP BY g"
NEW = "SELECT g, MAX(v) AS hi, COUNT(*) AS n FROM a GROUP BY g"
PAIRS = "SELECT a.id, b.id AS bid FROM a JOIN b ON a.g = b.g"


@pytest.fixture
def db(tmp_path: Path, spark: Any) -> Iterator[tr.Database]:
    with tr.open(tmp_path / "s", create=True, spark=spark, map_size=1 << 30) as database:
        set_up(database)
        yield database


def set_up(db: tr.Database) -> None:
    db.sql("CREATE TABLE a (id INT PRIMARY KEY, g INT, v INT); CREATE TABLE b (id INT PRIMARY KEY, g INT)")
    db.table("a").put_many([{"id": i, "g": i % 4, "v": i} for i in range(60)])
    db.table("b").put_many([{"id": i, "g": i % 6} for i in range(12)])
    db.sql(f"CREATE MATERIALIZED VIEW v AS {OLD}")


def replace(sql: str, name: str = "v", policy: str = "incremental") -> str:
    return f"CREATE OR REPLACE MATERIALIZED VIEW {name} WITH (refresh = '{policy}') AS {sql}"


@pytest.mark.parametrize("chunk", [200_000, 30], ids=["at-once", "in-chunks"])
@pytest.mark.parametrize("policy", ["incremental", "auto", "full"])
def test_replacing_a_view(db: tr.Database, chunk: int, policy: str) -> None:
    inside(db).builder.chunk = chunk
    handle = db.view("v")
    assert handle.get(1) == {"g": 1, "s": 435}
    steps: list[str] = []

    def on_step(step: Step) -> None:
        steps.append(str(step))
        assert handle.get(1) is not None, "the old view is readable meanwhile"
        assert [c.name for c in handle.columns] == ["g", "s"]

    db.sql(replace(NEW, policy=policy), progress=on_step)
    assert "verifying v" in steps
    assert handle.get(1) == {"g": 1, "hi": 57, "n": 15}
    assert handle.sql == NEW
    db.table("a").put({"id": 100, "g": 1, "v": 1000})
    db.refresh()
    assert handle.get(1) == {"g": 1, "hi": 1000, "n": 16}
    assert stored_states(db) <= needed_states(db), "states of the old definition are removed"
    assert db.query("SELECT SUM(n) AS n FROM v").to_pylist() == [{"n": 61}]
    assert db.verify("v").ok


@pytest.mark.parametrize("chunk", [200_000, 30], ids=["at-once", "in-chunks"])
def test_views_over_a_replaced_view_are_rebuilt(db: tr.Database, chunk: int) -> None:
    inside(db).builder.chunk = chunk
    db.sql("CREATE MATERIALIZED VIEW w AS SELECT COUNT(*) AS k, SUM(s) AS t FROM v")
    db.sql("CREATE MATERIALIZED VIEW x WITH (refresh = 'full') AS SELECT k + 1 AS k1 FROM w") if chunk > 30 else None
    db.sql(replace("SELECT g, SUM(v) * 2 AS s FROM a WHERE g > 0 GROUP BY g"))
    assert db.view("w").get() == {"k": 3, "t": 2 * sum(i for i in range(60) if i % 4)}
    for name in db.views():
        assert db.verify(name).ok
    assert stored_states(db) <= needed_states(db)
    before = db.view("w").sql, inside(db).catalog.view("v")
    with pytest.raises(SqlError) as error:
        db.sql(replace(NEW))
    assert (error.value.view, "Nothing was changed" in str(error.value)) == ("w", True)
    assert (db.view("w").sql, inside(db).catalog.view("v")) == before


def test_replacements_that_are_refused(db: tr.Database) -> None:
    with pytest.raises(NameTaken):
        db.sql(replace("SELECT g FROM b", name="a"))
    db.sql(replace("SELECT g FROM b", name="fresh"))  # no such view yet: it is created
    assert db.view("fresh").scan().num_rows == 12
    db.sql("CREATE MATERIALIZED VIEW w AS SELECT s FROM v")
    for sql in ("SELECT g, s FROM v", "SELECT s FROM w"):
        with pytest.raises(Unsupported):
            db.sql(replace(sql))
    with pytest.raises(Unsupported):
        db.sql(replace("SELECT rand() AS s FROM a"))
    assert db.view("v").sql == OLD


class Interrupt(BaseException):
    pass


def interrupt(db: tr.Database, statement: str) -> None:
    def on_step(step: Step) -> None:
        if step.rows is not None and step.rows >= 20:
            raise Interrupt

    with pytest.raises(Interrupt):
        db.sql(statement, progress=on_step)


def test_an_interrupted_replace_keeps_the_old_view_and_can_be_continued(db: tr.Database) -> None:
    inside(db).builder.chunk = 30
    interrupt(db, replace(PAIRS))
    assert db.status().building[0]["replaces"]
    db.table("a").put({"id": 200, "g": 2, "v": 7})
    with pytest.raises(BeingBuilt):
        db.sql("CREATE MATERIALIZED VIEW over AS SELECT s FROM v")
    assert db.view("v").get(1) == {"g": 1, "s": 435}
    db.sql(replace(PAIRS))
    assert db.view("v").key == ["id", "bid"]
    assert db.verify("v").ok
    interrupt(db, replace(NEW))
    db.refresh()
    assert db.view("v").sql == NEW
    interrupt(db, replace(PAIRS))
    db.sql("DROP VIEW v")
    assert (db.views(), db.status().building, stored_states(db)) == ([], [], set())


@pytest.mark.parametrize("chunk", [200_000, 30], ids=["at-once", "in-chunks"])
def test_a_new_definition_that_fails_verification_is_discarded(db: tr.Database, chunk: int) -> None:
    inside(db).builder.chunk = chunk

    def damage(step: Step) -> None:
        if step.what == "verifying v":
            old = needed_states(db)
            for state in stored_states(db) - old:
                for shard in range(inside(db).store.shards):
                    inside(db).store.shard(shard).drop(state)

    with pytest.raises(BuildFailed) as error:
        db.sql(replace(NEW), progress=damage)
    assert "(4 missing, " in error.value.reason
    assert db.view("v").get(1) == {"g": 1, "s": 435}
    db.sql(replace(NEW))
    assert db.verify("v").ok
    assert stored_states(db) <= needed_states(db)


def test_a_new_definition_published_by_another_handle_is_used(db: tr.Database) -> None:
    inside(db).builder.chunk = 30
    with tr.open(db.path, spark=db.spark) as other:
        db.sql(replace(NEW), progress=lambda step: other.refresh() if step.what == "verifying v" else None)
    assert db.view("v").sql == NEW
    assert db.verify("v").ok
    db.refresh()
    assert stored_states(db) <= needed_states(db)


def test_readers_always_see_either_the_old_or_the_new_view(db: tr.Database) -> None:
    old, new = db.view("v").scan(), None
    seen: list[Any] = []
    stop = threading.Event()

    def read() -> None:
        view = db.view("v")
        while not stop.is_set():
            seen.append(view.scan())

    reader = threading.Thread(target=read)
    reader.start()
    try:
        for sql in (NEW, OLD, NEW):
            db.sql(replace(sql))
        new = db.view("v").scan()
    finally:
        stop.set()
        reader.join()
    assert len(seen) > 3
    assert all(table in (old, new) for table in seen)


def test_a_pin_keeps_the_states_of_a_replaced_view(db: tr.Database) -> None:
    state = inside(db).catalog.view("v").state
    with pinned(inside(db).store):
        db.sql(replace(NEW))
        assert state in stored_states(db)
    db.refresh()
    assert state not in stored_states(db)


REPLACER = """
import sys
import tailrace as tr
from tailrace.database.inside import inside
db = tr.open(sys.argv[1])
inside(db).builder.chunk = 1500
print("ready", flush=True)
db.sql(sys.argv[2], progress=lambda step: print(step, flush=True))
"""


@pytest.mark.parametrize("at", ["building", "verifying"])
def test_a_killed_replace_keeps_the_old_view_and_refresh_finishes_it(db: tr.Database, at: str) -> None:
    db.table("a").put_many([{"id": i, "g": i % 4, "v": i} for i in range(6000)])
    db.refresh()
    before = db.view("v").scan()
    with subprocess.Popen(
        [sys.executable, "-c", REPLACER, db.path, replace(NEW)], stdout=subprocess.PIPE, text=True
    ) as process:
        assert process.stdout is not None
        for line in process.stdout:
            if line.startswith(at):
                process.send_signal(signal.SIGKILL)
        assert process.wait(timeout=60) == -signal.SIGKILL
    assert db.view("v").scan() == before
    db.table("a").put({"id": 1, "g": 9, "v": 9})
    db.refresh()
    assert db.view("v").get(9) == {"g": 9, "hi": 9, "n": 1}
    assert db.verify("v").ok
    assert stored_states(db) <= needed_states(db)
