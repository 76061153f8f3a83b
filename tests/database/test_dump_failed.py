"""A dump made while a view has failed: the store is restored, with that view as a failed one, which recovers."""

from __future__ import annotations

from pathlib import Path

import pytest
from pyspark.sql import SparkSession

import tailrace as tr
from tailrace.errors import ViewFailed

BAD = "SELECT id, CASE WHEN v = 999 THEN raise_error('poison') ELSE v END AS x FROM a"


def test_a_view_that_cannot_be_built_is_restored_as_failed(tmp_path: Path, spark: SparkSession) -> None:
    with tr.open(tmp_path / "store", create=True, spark=spark) as db:
        db.sql("CREATE TABLE a (id INT PRIMARY KEY, v INT)")
        db.table("a").put_many([{"id": i, "v": i} for i in range(6)])
        db.sql(
            "CREATE MATERIALIZED VIEW first AS SELECT COUNT(*) AS n FROM a;"
            f"CREATE MATERIALIZED VIEW second AS {BAD};"
            "CREATE MATERIALIZED VIEW third AS SELECT x, COUNT(*) AS n FROM second GROUP BY x;"
            "CREATE MATERIALIZED VIEW zeroth AS SELECT id, v + 1 AS w FROM a"
        )
        db.table("a").put({"id": 3, "v": 999})
        db.refresh()
        db.dump(tmp_path / "dump")
    restored = tr.restore(tmp_path / "dump", tmp_path / "again", spark=spark)
    assert not restored.ok
    assert [(report.view, report.ok) for report in restored.reports] == [("first", True), ("zeroth", True)]
    assert restored.failed.keys() == {"second", "third"}
    for part in ("project", "v = 999", "a: id = 3", "poison"):
        assert part in restored.failed["second"]
    assert "it reads view 'second', which has failed: project" in restored.failed["third"]
    with tr.open(tmp_path / "again", spark=spark) as db:
        assert db.view("first").get() == {"n": 6}
        for read in (db.view("second").scan, db.view("third").scan, lambda: db.view("second").get(1)):
            with pytest.raises(ViewFailed, match="could not be built"):
                read()
        for text in ("SELECT * FROM second", "SELECT * FROM third"):
            with pytest.raises(ViewFailed, match="could not be built"):
                db.query(text)
        with db.snapshot() as snapshot, pytest.raises(ViewFailed):
            snapshot.query("SELECT * FROM second")
        with pytest.raises(ViewFailed):
            db.verify("second")
        assert set(db.audit().skipped) == {"second", "third"}
        db.table("a").put({"id": 9, "v": 1})
        assert not db.refresh().recovered
        db.table("a").put({"id": 3, "v": 3})
        assert set(db.refresh().recovered) == {"second", "third"}
        assert all(db.verify(view).ok for view in db.views())
        assert db.audit().ok


def test_a_restored_backup_says_which_views_have_failed(tmp_path: Path, spark: SparkSession) -> None:
    with tr.open(tmp_path / "store", create=True, spark=spark) as db:
        db.sql("CREATE TABLE a (id INT PRIMARY KEY, v INT)")
        db.sql(f"CREATE MATERIALIZED VIEW bad AS {BAD}")
        db.table("a").put({"id": 3, "v": 999})
        db.refresh()
        db.backup(tmp_path / "backup")
    restored = tr.restore(tmp_path / "backup", tmp_path / "again", spark=spark)
    assert not restored.ok
    assert "shows epoch 0: project" in restored.failed["bad"]
    with tr.open(tmp_path / "again", spark=spark) as db:
        db.table("a").delete(3)
        assert db.refresh().recovered == ("bad",)
        assert db.verify("bad").ok
