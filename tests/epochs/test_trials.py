"""A runner tries failed views beside the epochs: others never wait for an attempt, and no attempt is pointless."""

from __future__ import annotations

import logging
import os
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
from pyspark.sql import SparkSession

import tailrace as tr
from tailrace.catalog import failed as failed_module
from tailrace.catalog.failed import FailedView, read_failed
from tailrace.database.inside import inside
from tailrace.epochs.dry_runs import DryRuns, Outcome

PATIENCE = 300.0
BAD = "CASE WHEN v = 999 THEN raise_error('poison') ELSE v END"


@pytest.fixture
def db(tmp_path: Path, spark: SparkSession) -> Iterator[tr.Database]:
    with tr.open(tmp_path / "store", create=True, spark=spark) as db:
        set_up(db)
        yield db


def set_up(db: tr.Database) -> None:
    db.sql("CREATE TABLE a (id INT PRIMARY KEY, v INT)")
    db.table("a").put_many([{"id": i, "v": i} for i in range(6)])
    db.sql(
        "CREATE MATERIALIZED VIEW good AS SELECT COUNT(*) AS n FROM a;"
        f"CREATE MATERIALIZED VIEW bad AS SELECT id, {BAD} AS x FROM a;"
        "CREATE MATERIALIZED VIEW over AS SELECT x, COUNT(*) AS n FROM bad GROUP BY x"
    )


@contextmanager
def running(db: tr.Database) -> Iterator[None]:
    runner = threading.Thread(target=lambda: db.run(0.02))
    runner.start()
    try:
        yield
    finally:
        db.stop()
        runner.join(PATIENCE)
    assert not runner.is_alive()


def wait_until(condition: Callable[[], object], what: str) -> None:
    end = time.monotonic() + PATIENCE
    while not condition():
        assert time.monotonic() < end, f"{what} did not happen"
        time.sleep(0.02)


def failure(db: tr.Database, view: str = "bad") -> FailedView | None:
    return db.view(view).failure


def is_known(db: tr.Database) -> bool:
    found = failure(db)
    return found is not None and found.diagnosed and not found.trying


def count(db: tr.Database, at_least: tr.Written) -> int:
    row = db.view("good").get((), at_least=at_least, timeout=PATIENCE)
    assert row is not None
    return int(row["n"])


def test_views_go_on_while_a_failed_one_is_tried(db: tr.Database, monkeypatch: pytest.MonkeyPatch) -> None:
    """Attempts that do not end: other views move on, and so do they while the reason is searched for."""
    release, begun, run = threading.Event(), threading.Event(), DryRuns.run

    def slow(self: DryRuns, *attempt: object) -> Outcome:
        begun.set()
        assert release.wait(PATIENCE)
        return run(self, *attempt)  # type: ignore[arg-type]

    monkeypatch.setattr(DryRuns, "run", slow)
    with running(db):
        written = db.table("a").put({"id": 3, "v": 999})
        assert count(db, written) == 6
        assert begun.wait(PATIENCE)
        assert count(db, db.table("a").put({"id": 10, "v": 1})) == 7
        assert count(db, db.table("a").put({"id": 11, "v": 1})) == 8
        found = failure(db)
        assert found is not None
        assert found.key == ""
        assert not release.is_set()
        release.set()
        wait_until(lambda: is_known(db), "the diagnosis")
        found, reader = failure(db), failure(db, "over")
        assert found is not None
        assert reader is not None
        assert (found.key, found.operator, reader.key) == ("a: id = 3", "project", "a: id = 3")
        db.table("a").delete(3)
        wait_until(lambda: failure(db) is None, "the recovery")
    assert all(db.verify(view).ok for view in db.views())


def test_no_attempt_is_pointless_and_a_repair_is_tried_at_once(
    db: tr.Database, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    """Other rows of the table are no reason to try again. The pause would be longer than this test."""
    monkeypatch.setattr(failed_module, "FIRST_PAUSE", 100_000.0)
    with caplog.at_level(logging.INFO, "tailrace"), running(db):
        db.table("a").put({"id": 3, "v": 999})
        wait_until(lambda: is_known(db), "the diagnosis")
        for number in range(20, 24):
            count(db, db.table("a").put({"id": number, "v": 1}))
        found = failure(db)
        assert found is not None
        assert found.tries == 1
        db.table("a").put({"id": 4, "v": 999})  # a second bad row
        db.table("a").put({"id": 3, "v": 3})
        wait_until(
            lambda: (f := failure(db)) is not None and f.key == "a: id = 4" and is_known(db), "the second reason"
        )
        db.table("a").put({"id": 4, "v": 4})
        wait_until(lambda: failure(db) is None, "the recovery")
    events = [record.getMessage() for record in caplog.records if getattr(record, "event", "") == "view_failed"]
    said = [line for line in events if line.startswith("view bad")]
    assert [line.count("bad failed") for line in said] == [1, 1]
    assert "id = 3" in said[0]
    assert "id = 4" in said[1]
    assert all(db.verify(view).ok for view in db.views())


def test_resume_asks_the_runner(db: tr.Database) -> None:
    with running(db):
        db.table("a").put({"id": 3, "v": 999})
        wait_until(lambda: is_known(db), "the diagnosis")
        with pytest.raises(tr.errors.ViewFailed, match="id = 3"):
            db.resume("over", timeout=PATIENCE)
        found = failure(db)
        assert found is not None
        assert found.tries == 2


RUN = """
import sys, tailrace
with tailrace.open(sys.argv[1]) as db:
    db.run(0.02)
"""


def test_a_trial_that_kills_its_process_is_counted(tmp_path: Path, spark: SparkSession) -> None:
    path, armed = tmp_path / "store", tmp_path / "faults"
    armed.mkdir()
    (armed / "trial.begun").write_text("kill@1")
    with tr.open(path, create=True, spark=spark) as db:
        set_up(db)
        db.table("a").put({"id": 3, "v": 999})
        db.refresh()
        before = failure(db)
        assert before is not None
        db.table("a").delete(3)
    ended = subprocess.run(
        [sys.executable, "-c", RUN, str(path)], timeout=PATIENCE, env={**os.environ, "TAILRACE_FAULTS": str(armed)}
    )
    assert ended.returncode == -signal.SIGKILL
    with tr.open(path, spark=spark) as db:
        left = failure(db)
        assert left is not None
        assert (left.tries, left.trying) == (before.tries + 1, True)
        assert left.next_try > before.next_try
        with running(db):
            wait_until(lambda: failure(db) is None, "the recovery")
        assert not read_failed(inside(db).store)
        assert all(db.verify(view).ok for view in db.views())
