"""Corner cases that were wrong once; most tests end in a comparison with recomputation."""

from __future__ import annotations

import shutil
import struct
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from oracle import Model

import tailrace as tr
from tailrace.database.inside import inside
from tailrace.errors import UnknownName


@pytest.fixture
def db(tmp_path: Path, spark: Any) -> Iterator[tr.Database]:
    with tr.open(tmp_path / "s", create=True, spark=spark, map_size=1 << 30) as database:
        database.sql("CREATE TABLE t (id INT PRIMARY KEY, x INT, s STRING, f DOUBLE)")
        database.sql("CREATE TABLE u (id INT PRIMARY KEY, y INT)")
        yield database


def test_global_aggregates_of_an_empty_new_store(db: tr.Database) -> None:
    model = Model(db)
    db.sql(
        "CREATE MATERIALIZED VIEW v AS SELECT * FROM (SELECT COUNT(*) AS a FROM t) p CROSS JOIN "
        "(SELECT COUNT(*) AS b FROM u) q; CREATE MATERIALIZED VIEW n AS SELECT COUNT(*) AS n, MAX(x) AS m FROM t"
    )
    model.check()
    model.put("t", [{"id": 1, "x": 5}])
    db.refresh()
    model.check()


def test_full_join_of_keys_that_may_be_null(db: tr.Database) -> None:
    model = Model(db)
    db.sql(
        "CREATE MATERIALIZED VIEW v AS SELECT a.x, b.y, a.n, b.m FROM (SELECT x, COUNT(*) AS n FROM t GROUP BY x) a "
        "FULL JOIN (SELECT y, COUNT(*) AS m FROM u GROUP BY y) b ON a.x = b.y"
    )
    assert db.view("v").key is None
    model.put("t", [{"id": 1}, {"id": 2, "x": 1}])
    db.refresh()
    model.put("u", [{"id": 1}, {"id": 2, "y": 1}])
    db.refresh()
    model.check()


def test_global_aggregate_over_one_group_built_by_many_tasks(db: tr.Database) -> None:
    inside(db).epochs.jobs.small = -1
    model = Model(db)
    model.put("t", [{"id": i, "x": i % 7} for i in range(40)])
    model.put("u", [{"id": i, "y": i} for i in range(5)])
    db.sql("CREATE MATERIALIZED VIEW v AS SELECT MIN(t.x) AS m, COUNT(*) AS n FROM t JOIN u ON t.x < u.y")
    db.sql("CREATE MATERIALIZED VIEW w AS SELECT MAX(c) AS m FROM (SELECT COUNT(*) AS c FROM t)")
    model.check()
    model.delete("t", [0, 7, 14])
    db.refresh()
    model.check()


def test_a_later_view_uses_the_stored_answer_of_an_aggregate(db: tr.Database) -> None:
    db.sql("CREATE MATERIALIZED VIEW v AS SELECT x, max_by(s, f) AS best FROM t GROUP BY x")
    db.table("t").put({"id": 5, "x": 1, "s": "late", "f": 9.0})
    db.refresh()
    db.table("t").put({"id": 1, "x": 1, "s": "early", "f": 9.0})
    db.refresh()
    db.sql("CREATE MATERIALIZED VIEW w AS SELECT best FROM v")
    assert db.view("w").scan().column("best").to_pylist() == db.view("v").scan().column("best").to_pylist()
    db.table("t").put({"id": 6, "x": 1, "s": "best", "f": 10.0})
    db.refresh()
    assert db.view("w").scan().to_pylist() == [{"best": "best"}]


def test_negative_zero_as_a_group(db: tr.Database) -> None:
    model = Model(db)
    db.sql("CREATE MATERIALIZED VIEW v AS SELECT CAST(f AS STRING) AS s, MAX(x) AS m, MIN(f) AS lo FROM t GROUP BY f")
    for number, value in enumerate([-0.0, 0.0, -0.0]):
        model.put("t", [{"id": number, "f": value, "x": number}])
        db.refresh()
    model.check()


@pytest.mark.parametrize("small", [50_000, -1], ids=["one-task", "all-shards"])
def test_zeros_and_nans_inside_arrays_and_structs_as_groups(db: tr.Database, small: int) -> None:
    inside(db).epochs.jobs.small = small
    nested = (
        "(SELECT id, array(1D, f) AS a, named_struct('x', CAST(f AS FLOAT), 'l', array(struct(f), NULL)) AS s FROM t)"
    )
    for number, sql in enumerate(
        [
            f"SELECT CAST(a AS STRING) AS k, COUNT(*) AS n, MAX(id) AS m FROM {nested} GROUP BY a",
            f"SELECT s, SUM(id) AS t, COUNT(DISTINCT a) AS k FROM {nested} GROUP BY s",
            f"SELECT CAST(s AS STRING) AS k, median(id) AS mid FROM {nested} GROUP BY a, s",
            f"SELECT DISTINCT s, a FROM {nested}",
            f"SELECT a FROM {nested} WHERE id < 3 INTERSECT SELECT a FROM {nested} WHERE id > 2",
            f"SELECT l.id, r.id AS j, r.s FROM {nested} l JOIN {nested} r ON l.a = r.a AND l.s = r.s",
            f"SELECT id, CAST(a AS STRING) AS k FROM {nested} l LEFT ANTI JOIN"
            f" (SELECT s FROM {nested} WHERE id = 2) r ON l.s = r.s",
            f"SELECT id, CAST(a AS STRING) AS k, sum(id) OVER (PARTITION BY s ORDER BY id) AS t FROM {nested}",
            f"SELECT id, s FROM {nested} QUALIFY row_number() OVER (PARTITION BY a ORDER BY id DESC) = 1",
        ]
    ):
        db.sql(f"CREATE MATERIALIZED VIEW v{number} AS {sql}")
    model = Model(db)
    (other_nan,) = struct.unpack("<d", struct.pack("<Q", 0xFFF8_0000_0000_0001))
    for number, value in enumerate([-0.0, 0.0, other_nan, -0.0, float("nan"), 0.0, None]):
        model.put("t", [{"id": number, "f": value}])
        if number % 3 == 0:
            db.refresh()
            model.check()
    for gone in ([0, 2], [1, 3, 4, 5, 6]):
        model.delete("t", gone)
        db.refresh()
        model.check()


def test_extremes_of_long_strings(db: tr.Database) -> None:
    model = Model(db)
    db.sql("CREATE MATERIALIZED VIEW v AS SELECT x, MIN(s) AS lo, MAX(s) AS hi FROM t GROUP BY x")
    long = ["p" * 215 + c * n for c in "am" for n in (1, 5, 20, 40, 300)]
    model.put("t", [{"id": i, "x": 1, "s": s} for i, s in enumerate(["a", "z", *long])])
    db.refresh()
    model.check()
    model.delete("t", [0, 1])
    db.refresh()
    model.check()
    for gone in range(2, 8):
        model.delete("t", [gone])
        db.refresh()
        model.check()


def test_updates_of_one_key_keep_their_order(db: tr.Database) -> None:
    db.table("t").put({"id": 1})
    db.table("t").update_many([{"id": 1, "x": 1, "s": "a"}, {"id": 1, "x": 2}, {"id": 1, "x": 3, "s": "b"}])
    assert db.table("t").get(1) == {"id": 1, "x": 3, "s": "b", "f": None}


def test_handles_of_dropped_tables_and_views_raise_unknown_name(db: tr.Database) -> None:
    db.sql("CREATE MATERIALIZED VIEW v AS SELECT y FROM u")
    table, view = db.table("u"), db.view("v")
    db.sql("DROP VIEW v; DROP TABLE u; CREATE TABLE u (id INT PRIMARY KEY, y INT)")
    for use in (lambda: table.put({"id": 1}), lambda: table.get(1), view.scan):
        with pytest.raises(UnknownName):
            use()


def test_a_store_created_again_at_the_same_path(tmp_path: Path, spark: Any) -> None:
    for value in (1, 2):
        with tr.open(tmp_path / "again", create=True, spark=spark, map_size=1 << 28) as db:
            db.sql("CREATE TABLE t (id INT PRIMARY KEY, x INT); CREATE MATERIALIZED VIEW v AS SELECT id, x FROM t")
            db.table("t").put({"id": value, "x": value})
            db.refresh()
            assert db.view("v").scan().to_pylist() == [{"id": value, "x": value}]
            assert db.query("SELECT id FROM t").to_pylist() == [{"id": value}]
        shutil.rmtree(tmp_path / "again")


def test_map_size_can_be_raised(tmp_path: Path, spark: Any) -> None:
    path = tmp_path / "grows"
    with tr.open(path, create=True, spark=spark, map_size=1 << 20) as db:
        db.sql("CREATE TABLE t (id INT PRIMARY KEY, s STRING)")
        rows = [{"id": i, "s": "x" * 200} for i in range(10_000)]
        with pytest.raises(tr.errors.StoreFull):
            db.table("t").put_many(rows)
    with tr.open(path, spark=spark, map_size=1 << 26) as db:
        assert db.table("t").put_many(rows).operations == 10_000


def test_a_generic_global_aggregate_is_kept_when_no_change_reaches_it(db: tr.Database) -> None:
    db.sql("CREATE TABLE few (id INT PRIMARY KEY, x INT)")
    db.sql("CREATE MATERIALIZED VIEW mid AS SELECT median(x) AS m FROM few WHERE x > 100")
    db.table("few").put({"id": 1, "x": 200})
    db.refresh()
    assert db.view("mid").get(()) == {"m": 200.0}
    db.table("few").put({"id": 2, "x": 5})
    db.refresh()
    assert db.view("mid").get(()) == {"m": 200.0}
