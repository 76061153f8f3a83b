"""Epochs: recovery by repeating the work, one runner at a time, reads of one epoch, trimming of the log."""

from __future__ import annotations

import subprocess
import sys
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from crashes import crash_before_commit
from msgspec import structs

import tailrace as tr
from tailrace import faults
from tailrace.database.inside import inside
from tailrace.epochs.model import INTENT
from tailrace.errors import EpochsLocked, Fenced
from tailrace.store.base import Write
from tailrace.store.commits import read_committed
from tailrace.store.lmdb.file_locks import held
from tailrace.store.locks import TERM
from tailrace.store.pins import pinned


@pytest.fixture
def db(tmp_path: Path, spark: Any) -> Iterator[tr.Database]:
    with tr.open(tmp_path / "s", create=True, spark=spark, map_size=1 << 30) as database:
        database.sql("CREATE TABLE a (id INT PRIMARY KEY, g INT, v INT)")
        database.sql(
            "CREATE MATERIALIZED VIEW t AS SELECT g, SUM(v) AS s, COUNT(*) AS n, MIN(v) AS lo FROM a GROUP BY g"
        )
        database.sql("CREATE MATERIALIZED VIEW f AS SELECT id, v FROM a WHERE v > 1")
        database.sql("CREATE MATERIALIZED VIEW u AS SELECT s, COUNT(*) AS n FROM t GROUP BY s")
        yield database


def fill(db: tr.Database, value: int) -> None:
    db.table("a").put_many([{"id": i, "g": i % 3, "v": value + i} for i in range(9)])


def read_views(db: tr.Database) -> dict[str, list[dict[str, Any]]]:
    return {name: db.view(name).scan().to_pylist() for name in db.views()}


def test_refresh_reports_what_it_did(db: tr.Database) -> None:
    fill(db, 0)
    epoch = db.refresh()
    assert (epoch.operations, epoch.number) == (9, read_committed(inside(db).store).epoch)
    again = db.refresh()
    assert (again.operations, again.number) == (0, epoch.number)


@pytest.mark.parametrize("small", [50_000, -1])
def test_a_repeated_epoch_is_applied_once(db: tr.Database, small: int) -> None:
    inside(db).epochs.jobs.small = small
    fill(db, 0)
    db.refresh()
    before = read_views(db)
    fill(db, 100)
    db.table("a").delete_many([0, 3, 6])
    for _ in range(2):
        crash_before_commit(db)
        assert read_views(db) == before, "readers stay at the committed epoch while the next is applied"
    db.table("a").put({"id": 50, "g": 50, "v": 5})  # written after the open intent, so part of the epoch after it
    db.refresh()
    assert db.view("t").get(50) == {"g": 50, "s": 5, "n": 1, "lo": 5}
    for name in db.views():
        assert db.verify(name).ok


def test_a_backlog_longer_than_max_epoch_takes_several_epochs(tmp_path: Path, spark: Any) -> None:
    with tr.open(tmp_path / "s2", create=True, spark=spark, max_epoch=10, map_size=1 << 30) as db:
        db.sql("CREATE TABLE a (id INT PRIMARY KEY, v INT); CREATE MATERIALIZED VIEW n AS SELECT COUNT(*) AS n FROM a")
        for start in range(0, 25, 5):
            db.table("a").put_many([{"id": start + i} for i in range(5)])
        seen: list[tr.Epoch] = []
        total = db.refresh(progress=seen.append)
        assert [e.operations for e in seen] == [10, 10, 5]
        assert total.operations == 25
        assert db.view("n").get() == {"n": 25}


def test_only_one_process_runs_epochs(db: tr.Database) -> None:
    code = (
        "import sys, tailrace.store.lmdb.file_locks as l\n"
        "with l.held(sys.argv[1], 'runner'):\n    print('held', flush=True)\n    sys.stdin.read()"
    )
    other = subprocess.Popen(
        [sys.executable, "-c", code, db.path], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    )
    assert other.stdout is not None
    assert other.stdout.readline() == "held\n"
    fill(db, 0)
    with pytest.raises(EpochsLocked) as error:
        db.refresh()
    assert error.value.pid == other.pid
    assert db.status().lag_operations == 9
    other.communicate()
    assert db.refresh().operations == 9


def test_views_can_be_created_while_another_process_runs_epochs(db: tr.Database) -> None:
    with held(db.path, "runner"):
        db.sql("CREATE MATERIALIZED VIEW extra AS SELECT DISTINCT g FROM a")
        db.sql("DROP VIEW extra")


def test_run_until_stopped(db: tr.Database) -> None:
    seen: list[tr.Epoch] = []
    thread = threading.Thread(target=lambda: db.run(interval=0.05, progress=seen.append))
    fill(db, 0)
    thread.start()
    waiting = threading.Event()
    for _ in range(600):
        if db.status().lag_operations == 0 and seen:
            break
        waiting.wait(0.1)
    else:
        pytest.fail(f"no epoch in a minute: {db.status()}")
    db.stop()
    thread.join(timeout=60)
    assert not thread.is_alive()
    assert seen[0].operations == 9


def test_the_log_is_trimmed_up_to_the_committed_cut_or_the_oldest_pin(db: tr.Database) -> None:
    def entries() -> int:
        with inside(db).store.environment.read() as txn:
            return int(txn.stat(inside(db).store.environment.databases["log"])["entries"])

    fill(db, 0)
    assert entries() > 0
    db.refresh()
    assert entries() == 0
    with pinned(inside(db).store) as pin:
        old = read_views(db)
        fill(db, 100)
        db.refresh()
        fill(db, 200)
        db.refresh()
        assert entries() > 0
        from tailrace.spark.frames import view_frame

        view = inside(db).catalog.view("f")
        rows = view_frame(db.spark, inside(db).store, view, pin.epoch).toArrow().to_pylist()
        assert sorted(rows, key=lambda r: r["id"]) == old["f"]
    fill(db, 300)
    db.refresh()
    assert entries() == 0


def take_term(db: tr.Database) -> None:
    """Another process takes the epoch lock, as if this one had been suspended."""
    newest = inside(db).store.document(TERM)
    assert newest is not None
    inside(db).store.change_documents({TERM.name: structs.replace(newest, number=newest.number + 1, host="elsewhere")})


def test_a_runner_that_was_replaced_does_not_commit(db: tr.Database, monkeypatch: pytest.MonkeyPatch) -> None:
    fill(db, 0)
    db.refresh()
    before, done = read_views(db), read_committed(inside(db).store)
    fill(db, 100)

    def replaced(name: str) -> None:
        if name == "epoch.commit":
            take_term(db)

    with monkeypatch.context() as patch:
        patch.setattr(faults, "point", replaced)
        with pytest.raises(Fenced):
            db.refresh()
    assert (read_committed(inside(db).store), read_views(db)) == (done, before)
    db.refresh()  # under a term of its own
    assert db.view("t").get(0) == {"g": 0, "s": 309, "n": 3, "lo": 100}
    assert all(db.verify(name).ok for name in db.views())


def test_a_task_of_a_runner_that_was_replaced_says_so(db: tr.Database) -> None:
    fill(db, 0)
    db.refresh()
    newest = inside(db).store.document(TERM)
    assert newest is not None
    inside(db).store.fence(newest.number + 1)
    fill(db, 100)
    with pytest.raises(Fenced) as error:
        db.refresh()
    assert (error.value.term, error.value.newest) == (newest.number, newest.number + 1)
    take_term(db)
    db.refresh()
    assert all(db.verify(name).ok for name in db.views())


def test_tasks_of_an_epoch_that_another_process_took_over_are_refused(db: tr.Database) -> None:
    fill(db, 0)
    crash_before_commit(db)
    intent = inside(db).store.document(INTENT)
    assert intent is not None
    take_term(db)
    db.refresh()
    newest_term = inside(db).store.document(TERM)
    assert newest_term is not None
    assert intent.term < newest_term.number
    for index in range(inside(db).store.shards):
        with pytest.raises(Fenced):
            inside(db).store.shard(index).apply(intent.epoch, [Write.of(99, [b"k"], [b"v"], [None])], 0, intent.term)
    assert all(db.verify(name).ok for name in db.views())


def test_a_repair_never_uses_the_number_of_an_epoch_that_it_takes_back(db: tr.Database) -> None:
    fill(db, 0)
    db.refresh()
    fill(db, 100)
    crash_before_commit(db)
    intent = inside(db).store.document(INTENT)
    assert intent is not None
    state = inside(db).catalog.view("f").state
    inside(db).store.shard(0).apply(intent.epoch + 1, [Write.of(state, [b"k"], [b"damaged"], [None])], 0, intent.term)
    report = db.audit(repair=True)
    assert report.ok, report
    assert read_committed(inside(db).store).epoch > intent.epoch
    with pytest.raises(Fenced):  # a task that outlived its driver
        inside(db).store.shard(0).apply(intent.epoch, [Write.of(state, [b"k"], [b"v"], [None])], 0, intent.term)
    db.refresh()
    assert all(db.verify(name).ok for name in db.views())
