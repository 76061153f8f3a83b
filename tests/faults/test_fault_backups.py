"""Backups under load, and kills of backups and restores at every step: real processes, real signals."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest
from fault_processes import Writer, until
from pyspark.sql import SparkSession

import tailrace as tr
from tailrace.database.inside import inside
from tailrace.store.pins import PINS

VIEWS = {
    "totals": "SELECT g, SUM(v) AS s, COUNT(*) AS n, MAX(v) AS hi FROM a GROUP BY g",
    "pairs": "SELECT a.id, b.id AS bid, a.v + b.v AS v FROM a JOIN b ON a.g = b.g AND a.id < b.id",
}
TABLES = "CREATE TABLE a (id INT PRIMARY KEY, g INT, v INT); CREATE TABLE b (id INT PRIMARY KEY, g INT, v INT)"


def command(*args: object) -> list[str]:
    return [sys.executable, "-m", "tailrace", *map(str, args)]


def environment(**more: str) -> dict[str, str]:
    return {**os.environ, "PYTHONPATH": os.pathsep.join(sys.path), **more}


def tailrace(*args: object, **env: str) -> int:
    return subprocess.run(command(*args), env=environment(**env), capture_output=True).returncode


def test_backups_under_load(tmp_path: Path, spark: SparkSession) -> None:
    path, faults = tmp_path / "shop", tmp_path / "faults"
    faults.mkdir()
    with tr.open(path, create=True, spark=spark, map_size=1 << 30) as db:
        db.sql(TABLES)
        db.sql("; ".join(f"CREATE MATERIALIZED VIEW {name} AS {sql}" for name, sql in VIEWS.items()))
        writers = [Writer(tmp_path / "writer.log", faults, path, n * 1000, n, {"a": {}, "b": {}}) for n in range(2)]
        runner = subprocess.Popen(command("run", path, "--interval", 0), env=environment(), stdout=subprocess.DEVNULL)
        try:
            for number in range(3):
                began = db.status().epoch
                for writer in writers:
                    writer.write(20_000)  # more than they can write during a backup
                until(lambda began=began: db.status().epoch > began + 1, "epochs to run", db.status)  # type: ignore[misc]
                acknowledged = max(writer.last("ok")[1] for writer in writers)
                assert tailrace("backup", path, tmp_path / f"backup{number}") == 0
                assert all(writer.count("done") < writer.asked for writer in writers), "the writers ended too early"
                position = _goes_on(tmp_path / f"backup{number}", tmp_path / f"again{number}", spark)
                assert position >= acknowledged
            assert runner.poll() is None
        finally:
            runner.kill()
            runner.wait()
            for writer in writers:
                writer.end()
        db.refresh()
        assert all(db.verify(name).ok for name in VIEWS)


def _goes_on(backup: Path, path: Path, spark: SparkSession) -> int:
    """Restores a backup, verifies and audits it, and continues with writes and epochs. Returns its position."""
    report = tr.restore(backup, path, spark=spark)
    assert report.ok, report
    with tr.open(path, spark=spark) as db:
        rows = [row["v"] for name in "ab" for row in db.table(name).scan().to_pylist()]
        assert rows
        assert sum(rows) == 0, "a transaction is there by half"
        db.table("a").put_many([{"id": 5000 + i, "g": i % 6, "v": i} for i in range(20)])
        db.refresh()
        db.table("a").delete_many(range(5000, 5010))
        db.refresh()
        assert all(db.verify(name).ok for name in VIEWS)
        assert db.audit().ok
    return report.position


@pytest.fixture
def shop(tmp_path: Path) -> Path:
    (tmp_path / "faults").mkdir()
    with tr.open(tmp_path / "shop", create=True, map_size=1 << 26) as db:
        db.sql(TABLES)
        db.table("a").put_many([{"id": i, "g": i % 6, "v": i} for i in range(1000)])
    return tmp_path / "shop"


def arm(shop: Path, point: str) -> dict[str, str]:
    name, _, number = point.partition("@")
    (shop.parent / "faults" / name).write_text(f"kill@{number or 1}")
    return {"TAILRACE_FAULTS": str(shop.parent / "faults")}


def visible(path: Path) -> list[str]:
    return sorted(p.name for p in path.iterdir() if not p.name.startswith("."))


@pytest.mark.parametrize("point", ["backup.copied@1", "backup.copied@4", "backup.packed"])
def test_a_killed_backup_leaves_none_and_the_next_one_cleans_up(shop: Path, tmp_path: Path, point: str) -> None:
    assert tailrace("backup", shop, tmp_path / "backup", **arm(shop, point)) == -signal.SIGKILL
    assert visible(tmp_path) == ["faults", "shop"]
    assert tailrace("backup", shop, tmp_path / "backup") == 0
    assert not list(tmp_path.glob(".*"))
    with tr.open(shop) as db:
        db.table("a").put({"id": 1, "g": 1, "v": 1})
        db.refresh()
        assert inside(db).store.documents(PINS) == {}  # that of the killed process is gone, too


@pytest.mark.parametrize("point", ["restore.copied@2", "restore.done"])
def test_a_killed_restore_leaves_no_store_and_the_next_one_cleans_up(shop: Path, tmp_path: Path, point: str) -> None:
    assert tailrace("backup", shop, tmp_path / "backup") == 0
    args = ("restore", tmp_path / "backup", tmp_path / "again", "--no-verify")
    assert tailrace(*args, **arm(shop, point)) == -signal.SIGKILL
    assert visible(tmp_path) == ["backup", "faults", "shop"]
    assert tailrace("status", tmp_path / "again") == 1
    assert tailrace(*args) == 0
    assert not list(tmp_path.glob(".*"))
    with tr.open(tmp_path / "again") as db:
        assert db.table("a").scan().num_rows == 1000


def test_drafts_of_live_processes_are_left_alone(shop: Path, tmp_path: Path) -> None:
    (tmp_path / "faults" / "backup.copied").write_text("sleep:60@2")
    env = environment(TAILRACE_FAULTS=str(tmp_path / "faults"))
    slow = subprocess.Popen(command("backup", shop, tmp_path / "backup"), env=env, stderr=subprocess.DEVNULL)
    try:
        until(lambda: list(tmp_path.glob(".backup.*.draft/store/shards/000/data.mdb")), "the slow backup to copy")
        assert tailrace("backup", shop, tmp_path / "backup") == 0
        assert len(list(tmp_path.glob(".backup.*.draft"))) == 1
    finally:
        slow.kill()
        slow.wait()
