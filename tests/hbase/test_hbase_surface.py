"""The whole surface over a store on HBase: snapshots, recordings, dumps, and every verb of the command line."""

from __future__ import annotations

import random
from collections.abc import Iterator
from pathlib import Path

import pytest
import test_recording as recording
from pyspark.sql import SparkSession
from shopping import LINES, ORDERS, SPEND, Tailrace

import tailrace as tr
from tailrace.database.inside import inside
from tailrace.errors import NotCapable
from tailrace.store.pins import PINS
from tailrace.verify.history.verdict import Level
from tailrace_hbase.local_cluster import LocalCluster
from tailrace_hbase.scratch import scratch_database, scratch_namespace

pytestmark = pytest.mark.hbase


@pytest.fixture
def db(cluster: LocalCluster, spark: SparkSession) -> Iterator[tr.Database]:
    with scratch_database(cluster, spark) as database:
        yield database


def test_views_are_strong_while_processes_write(db: tr.Database, tmp_path: Path, spark: SparkSession) -> None:
    db.sql(recording.TABLES)
    recording.create(db, *recording.VIEWS)
    with recording.writing(db, tmp_path), db.record(tmp_path / "h.arrow") as recorded:
        for _ in range(3):
            db.refresh()
    assert recorded.epochs >= 2
    checked = tr.check(tmp_path / "h.arrow", spark=spark)
    assert checked.ok, checked.verdict
    assert (checked.verdict.level, checked.verdict.snapshot) == (Level.STRONG, True)
    assert set(checked.verdict.views) == set(recording.VIEWS)


def read_all(source: tr.Database | tr.Snapshot) -> dict[str, object]:
    views = {name: sorted(map(str, source.view(name).scan().to_pylist())) for name in ("sums", "pairs", "over")}
    tables = {name: sorted(map(str, source.table(name).scan().to_pylist())) for name in "ab"}
    by_key = {"one": source.view("sums").get(1), "row": source.table("a").get(3)}
    return {**views, **tables, **by_key}


def test_snapshots_stay_at_their_cut(db: tr.Database) -> None:
    db.sql("CREATE TABLE a (id INT PRIMARY KEY, g INT, v INT); CREATE TABLE b (id INT PRIMARY KEY, v INT)")
    db.sql("CREATE MATERIALIZED VIEW sums AS SELECT g, SUM(v) AS s, COUNT(*) AS n FROM a GROUP BY g")
    db.sql("CREATE MATERIALIZED VIEW pairs AS SELECT a.id, b.v AS w FROM a JOIN b ON a.id = b.id")
    db.sql("CREATE MATERIALIZED VIEW over AS SELECT n, COUNT(*) AS groups FROM sums GROUP BY n")
    rng, seen = random.Random(1), []

    def change() -> None:
        db.table("a").put_many([{"id": i, "g": rng.randrange(3), "v": rng.randrange(99)} for i in range(0, 20, 2)])
        db.table("b").put_many([{"id": i, "v": rng.randrange(99)} for i in range(rng.randrange(9), 15)])
        db.table("a").delete_many(rng.sample(range(20), 3))
        db.refresh()

    change()
    snapshots = []
    for _ in range(3):
        snapshots.append(db.snapshot())
        seen.append(read_all(db))
        change()
        db.table("a").put({"id": 100, "g": 1, "v": 1})  # in no epoch yet
        assert [read_all(snapshot) for snapshot in snapshots] == seen
        db.table("a").delete(100)
    sums = snapshots[0].query("SELECT SUM(n) AS n FROM sums").to_pylist()
    assert sums == snapshots[0].query("SELECT COUNT(*) AS n FROM a").to_pylist()
    for snapshot in snapshots:
        snapshot.close()
    assert not inside(db).store.documents(PINS)
    db.refresh()
    assert all(db.verify(name).ok for name in db.views())


def test_every_verb(cluster: LocalCluster, spark: SparkSession, tmp_path: Path) -> None:
    """`run` and `record` do not end by themselves: the fault tests run them."""
    (tmp_path / "more.csv").write_text("id,cust,price,note,day\n3,8,1.25,third,2026-01-03\n4,7,2.00,fourth,\n")
    with scratch_namespace(cluster) as name:
        shop = Tailrace(cluster.url(name))
        shop("init")
        cluster.admin("peer", "add", name)
        shop("sql", f"{ORDERS}; {LINES}; {SPEND}")
        shop("put", "orders", '{"id": 1, "cust": 7, "price": "5.00"}', '{"id": 2, "cust": 8, "price": "0.75"}')
        shop("load", "orders", tmp_path / "more.csv")
        shop("delete", "orders", 2)
        assert [row["id"] for row in shop.rows("orders")] == [1, 3, 4]
        assert shop.json("get", "orders", 3)["note"] == "third"
        shop("refresh")
        assert shop.rows("spend") == [{"cust": 7, "total": "7.00", "n": 2}, {"cust": 8, "total": "1.25", "n": 1}]
        [total] = shop.json("sql", "SELECT SUM(n) AS n FROM spend")
        assert total == {"n": 3}
        assert shop.json("verify", "spend")
        assert "additive" in shop("explain", "spend").stdout
        status = shop.json("status")
        assert ([t["name"] for t in status["tables"]], status["lag_operations"]) == (["lines", "orders"], 0)
        assert "spend" in shop("status").stdout
        levels = {finding["check"]: finding["level"] for finding in shop.json("doctor")}
        assert (levels["store"], levels["lag"], "disk space" in levels) == ("ok", "ok", False)
        shop("resume", "spend")
        shop("dump", tmp_path / "dumped")
        tr.restore(tmp_path / "dumped", tmp_path / "embedded", spark=spark)
        embedded = Tailrace(tmp_path / "embedded")
        for relation in ("orders", "spend"):
            assert embedded.rows(relation) == shop.rows(relation)
        assert shop.error("backup", tmp_path / "saved")["error"] == "NotCapable"
        with pytest.raises(NotCapable, match="a restore makes a store in a directory"):
            tr.restore(tmp_path / "dumped", shop.path)
