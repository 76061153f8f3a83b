"""A view that fails, fails alone: others go on; it keeps its last good rows, and catches up when the cause is gone."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import pytest
from pyspark.sql import SparkSession

import tailrace as tr
from tailrace.catalog import failed as failed_module
from tailrace.catalog.failed import read_failed
from tailrace.database.inside import inside
from tailrace.epochs.model import INTENT, MAX_ATTEMPTS
from tailrace.errors import StoreError, ViewFailed
from tailrace.store.pins import HOLDS

VIEWS = """
CREATE MATERIALIZED VIEW good AS SELECT g, SUM(v) AS s, MIN(v) AS lo FROM a GROUP BY g;
CREATE MATERIALIZED VIEW bad AS SELECT id, CASE WHEN v = 999 THEN raise_error('poison') ELSE v END AS x FROM a;
CREATE MATERIALIZED VIEW over AS SELECT x, COUNT(*) AS n FROM bad GROUP BY x;
CREATE MATERIALIZED VIEW joined AS SELECT a.id, a.v + b.v AS w FROM a JOIN b ON a.g = b.g;
CREATE MATERIALIZED VIEW bad_join AS
    SELECT a.id, CASE WHEN a.v + b.v = 1000 THEN CAST(raise_error('a thousand') AS INT) ELSE a.v + b.v END AS w
    FROM a JOIN b ON a.g = b.g;
CREATE MATERIALIZED VIEW median AS SELECT g, percentile(v, 0.5) AS m FROM a GROUP BY g;
CREATE MATERIALIZED VIEW chosen WITH (refresh = 'full') AS SELECT g, MAX(v) AS hi FROM a GROUP BY g
"""
FAILING = {"bad", "over", "bad_join"}


ALL_SHARDS = -1
SIZES = pytest.mark.parametrize("db", [50_000, ALL_SHARDS], ids=["one task", "all shards"], indirect=True)


@pytest.fixture
def db(tmp_path: Path, spark: SparkSession, request: pytest.FixtureRequest) -> Iterator[tr.Database]:
    with tr.open(tmp_path / "store", create=True, spark=spark) as db:
        inside(db).epochs.jobs.small = getattr(request, "param", 50_000)
        set_up(db)
        yield db


def set_up(db: tr.Database) -> None:
    db.sql("CREATE TABLE a (id INT PRIMARY KEY, g INT, v INT); CREATE TABLE b (g INT PRIMARY KEY, v INT)")
    db.table("a").put_many([{"id": i, "g": i % 3, "v": i} for i in range(12)])
    db.table("b").put_many([{"g": g, "v": 1} for g in range(3)])
    db.sql(VIEWS)


def poison(db: tr.Database) -> tr.Written:
    return db.table("a").put_many([{"id": 5, "g": 2, "v": 999}, {"id": 50, "g": 1, "v": 7}])


def assert_verified(db: tr.Database) -> None:
    for view in db.views():
        report = db.verify(view)
        assert report.ok, report


def test_others_go_on_and_the_view_shows_its_last_good_rows(db: tr.Database) -> None:
    before = {name: db.view(name).scan() for name in FAILING}
    written = poison(db)
    epoch = db.refresh()
    assert epoch.failed.keys() == FAILING
    assert db.view("good").get(1, at_least=written)["s"] == 1 + 4 + 7 + 10 + 7
    assert {name: db.view(name).scan() for name in FAILING} == before
    began = time.monotonic()
    for name in FAILING:
        with pytest.raises(ViewFailed) as error:
            db.view(name).scan(at_least=written)
        assert (error.value.epoch, error.value.shown) == (epoch.number, epoch.number - 1)
    assert time.monotonic() - began < 5, "a read of a failed view waits"
    assert_verified(db)
    audited = db.audit()
    assert audited.behind == dict.fromkeys(FAILING, epoch.number - 1)
    assert audited.ok
    assert {name: bool(db.verify(name).failure) for name in db.views()} == {n: n in FAILING for n in db.views()}


def test_the_error_names_operator_expression_and_row(db: tr.Database) -> None:
    poison(db)
    failed = db.refresh().failed
    assert failed["bad"].operator == "project"
    assert "v = 999" in failed["bad"].expression
    assert failed["bad"].key == "a: id = 5"
    assert "poison" in failed["bad"].reason
    assert failed["bad_join"].key == "id = 5"
    assert failed["over"].because == "bad"
    shown = {v["name"]: v["failed"] for v in db.status().views}
    assert {name for name, failure in shown.items() if failure} == FAILING
    assert shown["bad"]["key"] == "a: id = 5"


@pytest.mark.parametrize(
    ("db", "how"), [(50_000, "repaired"), (ALL_SHARDS, "deleted")], ids=["repaired", "deleted"], indirect=["db"]
)
def test_it_recovers_when_the_row_is_repaired_or_deleted(db: tr.Database, how: str) -> None:
    poison(db)
    db.refresh()
    db.table("a").put({"id": 51, "g": 0, "v": 8})
    db.table("b").put({"g": 0, "v": 2})
    assert not db.refresh().recovered
    assert read_failed(inside(db).store).keys() == FAILING
    if how == "repaired":
        written = db.table("a").put({"id": 5, "g": 2, "v": 6})
    else:
        written = db.table("a").delete(5)
    epoch = db.refresh()
    assert set(epoch.recovered) == FAILING
    assert not epoch.failed
    assert not read_failed(inside(db).store)
    assert not inside(db).store.documents(HOLDS)
    assert (db.view("bad").get(5, at_least=written) is None) == (how == "deleted")
    assert_verified(db)
    assert db.audit().ok


def test_a_row_that_is_repaired_within_the_epoch_does_no_harm(db: tr.Database) -> None:
    poison(db)
    db.table("a").put({"id": 5, "g": 2, "v": 6})
    assert not db.refresh().failed
    assert_verified(db)


def test_a_view_far_behind_is_recomputed(db: tr.Database, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(failed_module, "HELD_OPERATIONS", 10)
    poison(db)
    db.refresh()
    assert inside(db).store.documents(HOLDS).keys() == FAILING
    db.table("a").put_many([{"id": i, "g": i % 3, "v": i} for i in range(100, 120)])
    db.refresh()
    assert not inside(db).store.documents(HOLDS), "the log is kept beyond the limit"
    with pytest.raises(ViewFailed):
        db.verify("bad")
    db.table("a").delete(5)
    assert set(db.refresh().recovered) == FAILING
    assert_verified(db)
    assert db.audit().ok


def test_a_view_that_always_fails_is_recomputed_or_left(tmp_path: Path, spark: SparkSession) -> None:
    """Views that are always recomputed fail alone, too."""
    with tr.open(tmp_path / "store", create=True, spark=spark) as db:
        set_up(db)
        db.sql(
            "CREATE MATERIALIZED VIEW sql_only WITH (refresh = 'full') AS"
            " SELECT g, MAX(IF(v = 999, CAST(raise_error('poison') AS INT), v)) AS x FROM a GROUP BY g"
        )
        poison(db)
        assert db.refresh().failed.keys() == FAILING | {"sql_only"}
        db.table("a").delete(5)
        assert set(db.refresh().recovered) == FAILING | {"sql_only"}
        assert_verified(db)


@SIZES
def test_views_that_fail_one_after_another(db: tr.Database) -> None:
    """`j2` shares states with `j1`, which only they keep, and fails later: `j1` cannot catch up by deltas."""
    db.sql(
        "CREATE MATERIALIZED VIEW j1 AS SELECT a.id, b.v, CASE WHEN a.v = 999 THEN raise_error('j1') ELSE 'x' END AS e"
        "  FROM a JOIN b ON a.id = b.g;"
        "CREATE MATERIALIZED VIEW j2 AS SELECT a.id, b.v, CASE WHEN a.v = 998 THEN raise_error('j2') ELSE 'y' END AS e"
        "  FROM a JOIN b ON a.id = b.g"
    )
    db.table("a").put({"id": 2, "g": 2, "v": 999})
    assert "j1" in db.refresh().failed
    db.table("b").put({"g": 1, "v": 4})
    assert "j2" not in db.refresh().failed
    db.table("a").put({"id": 1, "g": 2, "v": 998})
    assert "j2" in db.refresh().failed
    db.table("b").put({"g": 1, "v": 5})
    db.table("a").put({"id": 2, "g": 2, "v": 3})
    db.refresh()
    assert read_failed(inside(db).store).keys() == {"j2"}
    assert_verified(db)
    db.table("a").put({"id": 1, "g": 2, "v": 3})
    db.refresh()
    assert not read_failed(inside(db).store)
    assert_verified(db)
    assert db.audit().ok


def test_new_views_beside_and_over_a_failed_one(db: tr.Database) -> None:
    poison(db)
    db.refresh()
    with pytest.raises(ViewFailed, match="'bad' failed"):
        db.sql("CREATE MATERIALIZED VIEW more AS SELECT MAX(id) AS m FROM bad")
    db.table("a").put({"id": 52, "g": 0, "v": 8})
    db.sql("CREATE MATERIALIZED VIEW twin AS SELECT a.id, a.v + b.v + 1 AS w FROM a JOIN b ON a.g = b.g")
    db.drop("joined")
    db.table("b").put({"g": 2, "v": 4})
    db.refresh()
    assert_verified(db)
    db.table("a").delete(5)
    assert set(db.refresh().recovered) == FAILING
    assert_verified(db)
    assert db.audit().ok


def test_replacing_or_dropping_a_failed_view(db: tr.Database) -> None:
    poison(db)
    db.refresh()
    db.sql("CREATE OR REPLACE MATERIALIZED VIEW bad AS SELECT id, v AS x FROM a")
    db.drop("bad_join")
    assert not read_failed(inside(db).store)
    assert not inside(db).store.documents(HOLDS)
    db.table("a").put({"id": 53, "g": 0, "v": 8})
    assert not db.refresh().failed
    assert_verified(db)
    assert db.audit().ok


def test_resume(db: tr.Database) -> None:
    db.resume("good")
    poison(db)
    db.refresh()
    with pytest.raises(ViewFailed, match="poison"):
        db.resume("over")
    assert read_failed(inside(db).store)["bad"].tries == 2
    db.sql("CREATE OR REPLACE MATERIALIZED VIEW bad AS SELECT id, v AS x FROM a")
    db.resume("bad")


def test_a_recording_ends_when_its_view_fails(db: tr.Database, tmp_path: Path) -> None:
    def recorded() -> None:
        with db.record(tmp_path / "history.arrow", ["bad", "good"]):
            poison(db)
            db.refresh()

    with pytest.raises(StoreError, match="'bad' failed"):
        recorded()
    assert tr.check(tmp_path / "history.arrow", spark=db.spark).ok


RUN = """
import sys, tailrace
with tailrace.open(sys.argv[1]) as db:
    db.refresh()
"""


@pytest.mark.parametrize(
    ("point", "passing"),
    [("view.failed", 1), ("view.undone", 3), ("epoch.commit", 1)],
)
def test_a_kill_in_between_loses_nothing(tmp_path: Path, spark: SparkSession, point: str, passing: int) -> None:
    path, armed = tmp_path / "store", tmp_path / "faults"
    armed.mkdir()
    (armed / point).write_text(f"kill@{passing}")
    with tr.open(path, create=True, spark=spark) as db:
        set_up(db)
        poison(db)
    ended = subprocess.run(
        [sys.executable, "-c", RUN, str(path)], timeout=240, env={**os.environ, "TAILRACE_FAULTS": str(armed)}
    )
    assert ended.returncode == -signal.SIGKILL
    with tr.open(path, spark=spark) as db:
        db.refresh()
        assert read_failed(inside(db).store).keys() == FAILING
        assert_verified(db)
        db.table("a").delete(5)
        assert set(db.refresh().recovered) == FAILING
        assert_verified(db)
        assert db.audit().ok


def test_a_view_that_kills_its_process_is_left_out_in_the_end(
    tmp_path: Path, spark: SparkSession, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As with a lack of memory: whoever computes `bad` dies. New processes find out which view it is."""

    class Died(BaseException):
        """Stands for the death of the process: nothing of Tailrace catches it."""

    path = tmp_path / "store"
    with tr.open(path, create=True, spark=spark) as db:
        set_up(db)
        db.table("a").put({"id": 60, "g": 0, "v": 1})
    deaths = 0
    while True:
        with tr.open(path, spark=spark) as db, monkeypatch.context() as patch:
            jobs, deadly = inside(db).epochs.jobs, inside(db).catalog.view("median").state
            run_job = jobs.run_job

            def run(work: object, maintained: object, *rest: object, **options: object) -> int:
                if any(view.state == deadly for view in maintained.views):  # noqa: B023
                    raise Died
                return run_job(work, maintained, *rest, **options)  # noqa: B023

            patch.setattr(jobs, "run_job", run)
            patch.setattr("tailrace.store.locks.is_this_process", lambda *process: False)
            try:
                db.refresh()
                break
            except Died:
                deaths += 1
                assert deaths < 20
    assert deaths > MAX_ATTEMPTS
    with tr.open(path, spark=spark) as db:
        failed = read_failed(inside(db).store)
        assert failed.keys() == {"median"}
        assert "died" in failed["median"].reason
        assert inside(db).store.document(INTENT) is None
        assert_verified(db)
        db.resume("median")
        assert_verified(db)
        assert db.audit().ok


def test_a_runner_tries_again_by_itself(tmp_path: Path, spark: SparkSession) -> None:
    with tr.open(tmp_path / "store", create=True, spark=spark) as db:
        set_up(db)
        poison(db)
        recovered: list[str] = []
        said: list[str] = []

        def progress(epoch: tr.Epoch) -> None:
            said.extend(epoch.failed)
            recovered.extend(epoch.recovered)
            if epoch.failed and not recovered:
                db.table("a").delete(5)

        db.run(0.02, progress=progress, until=lambda: set(recovered) >= FAILING)
        assert set(said) == FAILING
        assert set(recovered) == FAILING
        assert_verified(db)
