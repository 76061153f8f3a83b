"""Views while their tables are altered: they keep their columns, states and rows, and stay exact.

Expected rows come from recomputation by Spark (`verify`) and from an audit of all states.
"""

from __future__ import annotations

import random
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from crashes import crash_before_commit
from oracle import WIDE, random_row

import tailrace as tr
from tailrace.catalog.catalog import STATES
from tailrace.database.inside import inside
from tailrace.database.progress import Step
from tailrace.errors import BeingBuilt, InUse, NameTaken, SqlError, Unsupported

VIEWS = {
    "stars": "SELECT * FROM t",
    "nested": "SELECT * FROM (SELECT * FROM t) x WHERE n > 0",
    "sums": "SELECT g, SUM(n), COUNT(*) AS c FROM t GROUP BY g HAVING COUNT(*) > 0",
    "pairs": "SELECT t.id, d.name, T.n + 1 FROM t JOIN d ON t.g = d.k WHERE n IS NOT NULL",
    "outer_join": "WITH x AS (SELECT g AS g2, n AS n FROM t) SELECT d.k, x.n FROM d LEFT JOIN x ON d.k = x.g2",
    "correlated": "SELECT k FROM d WHERE EXISTS (SELECT 1 FROM t WHERE g = k AND n > 0)",
    "ranks": "SELECT id, rank() OVER (PARTITION BY g ORDER BY n, id) AS r FROM t",
    "best": "SELECT id, n FROM t ORDER BY n DESC NULLS LAST, id LIMIT 3",
    "both": "SELECT n FROM t UNION ALL SELECT k FROM d",
    "counted": "SELECT COUNT(*) AS c FROM t",
    "over": "SELECT g, n FROM stars WHERE n > 0",
}


@pytest.fixture
def db(tmp_path: Path, spark: Any) -> Iterator[tr.Database]:
    with tr.open(tmp_path / "s", create=True, spark=spark, map_size=1 << 30, durable=False) as database:
        set_up(database)
        yield database


def set_up(db: tr.Database) -> None:
    db.sql(f"CREATE TABLE t (id INT PRIMARY KEY, {WIDE})")
    db.sql("CREATE TABLE d (k INT PRIMARY KEY, name STRING)")
    db.table("d").put_many([{"k": k, "name": f"d{k}"} for k in range(4)])
    write(db, random.Random(1))


def create(db: tr.Database, *names: str) -> None:
    db.sql("; ".join(f"CREATE MATERIALIZED VIEW {name} AS {VIEWS[name]}" for name in names))


def write(db: tr.Database, rng: random.Random, table: str = "t", **renamed: str) -> None:
    """Puts and deletes some rows. `renamed` has new names of columns."""
    known = {c.name for c in db.table(table).columns}
    rows = [{"id": i, **random_row(rng)} for i in rng.sample(range(30), 12)]
    respelled = [{renamed.get(k, k): v for k, v in row.items()} for row in rows]
    db.table(table).put_many([{k: v for k, v in row.items() if k in known} for row in respelled])
    db.table(table).delete_many(rng.sample(range(30), 3))


def verify(db: tr.Database) -> None:
    for name in db.views():
        report = db.verify(name)
        assert report.ok, report


def facts(db: tr.Database) -> dict[str, Any]:
    """What a renaming must keep: the columns and states of views, and all other states."""
    catalog = inside(db).catalog
    views = {v.state: (v.columns, v.key, v.since) for v in catalog.views.values()}
    return {"views": views, "states": inside(db).store.documents(STATES)}


def test_all_changes_under_all_views(db: tr.Database) -> None:
    rng = random.Random(2)
    create(db, *VIEWS)
    db.sql("CREATE MATERIALIZED VIEW spark_only WITH (refresh = 'full') AS SELECT COUNT(*) AS c, MAX(h) AS m FROM t")
    before = facts(db)
    write(db, rng)
    db.sql("ALTER TABLE t ADD COLUMNS (extra INT DEFAULT 7, k INT)")  # `k` alone now also means a column of d
    write(db, rng)
    db.refresh()  # over a range of the log with entries of both layouts
    verify(db)
    assert facts(db) == before
    db.sql("ALTER TABLE t RENAME COLUMN n TO `new n`; ALTER TABLE t RENAME COLUMN id TO key")
    write(db, rng, n="new n", id="key")
    db.sql("ALTER TABLE t RENAME TO u; ALTER VIEW stars RENAME TO starry")
    write(db, rng, "u", n="new n", id="key")
    crash_before_commit(db)
    db.sql("ALTER TABLE u RENAME COLUMN `new n` TO m; ALTER TABLE u DROP COLUMN extra")
    write(db, rng, "u", n="m", id="key")
    db.refresh()
    verify(db)
    assert facts(db) == before
    assert db.view("over").sql == "SELECT g, n FROM starry WHERE n > 0"
    assert db.view("best").sql.startswith("SELECT key AS id, m AS n FROM u ORDER BY")
    assert [c.name for c in db.view("sums").columns] == ["g", "sum(n)", "c"]
    assert db.audit().ok
    for name in db.views():  # as they were when they were created, each shows the statement that creates it again
        shown = db.sql(f"SHOW CREATE VIEW {name}")
        assert shown is not None
        db.sql(re.sub(r"VIEW (`\w+`|\w+)", "VIEW again", shown.column(0)[0].as_py(), count=1))
        again, view = db.view("again"), db.view(name)
        assert (again.columns, again.key) == (view.columns, view.key)
        assert sorted(map(str, again.scan().to_pylist())) == sorted(map(str, view.scan().to_pylist()))
        db.sql("DROP VIEW again")


def test_a_view_that_is_replaced_sees_new_columns_and_views_over_it_do_not(db: tr.Database) -> None:
    create(db, "stars", "over")
    db.sql(
        "CREATE MATERIALIZED VIEW plain AS SELECT * FROM d; CREATE MATERIALIZED VIEW joined AS"
        " SELECT d.*, plain.k AS k2 FROM plain JOIN d ON plain.k = d.k"
    )
    db.sql("ALTER TABLE d ADD COLUMN more INT DEFAULT 1")
    db.sql("CREATE OR REPLACE MATERIALIZED VIEW plain AS SELECT k, more FROM d")
    assert [c.name for c in db.view("joined").columns] == ["k", "name", "k2"]
    db.table("d").put({"k": 1, "more": 2})
    db.refresh()
    verify(db)


def test_a_column_that_views_need_is_dropped_only_with_them(db: tr.Database) -> None:
    create(db, "stars", "over", "sums", "counted", "ranks", "correlated")
    db.sql("CREATE MATERIALIZED VIEW part AS SELECT id FROM (SELECT * FROM t)")
    with pytest.raises(InUse, match=r"cannot drop 't\.n': it is read by correlated, ranks, stars, sums"):
        db.sql("ALTER TABLE t DROP COLUMN n")
    with pytest.raises(InUse, match=r"'t\.h': it is read by stars\. Replace those views .*CREATE OR REPLACE.* CASCADE"):
        db.sql("ALTER TABLE t DROP COLUMN h")
    db.sql("ALTER TABLE t DROP COLUMN n CASCADE")
    assert db.views() == ["counted", "part"]
    write(db, random.Random(3))
    db.sql("ALTER TABLE t DROP COLUMN h")
    db.refresh()
    verify(db)
    assert db.audit().ok
    create(db, "stars")
    assert "n" not in [c.name for c in db.view("stars").columns]
    db.sql("DROP TABLE t CASCADE")
    assert (db.tables(), db.views()) == (["d"], [])
    db.sql("CREATE MATERIALIZED VIEW x AS SELECT k FROM d; CREATE MATERIALIZED VIEW y AS SELECT k FROM x")
    with pytest.raises(InUse, match="'x': it is read by y"):
        db.sql("DROP VIEW x")
    db.sql("DROP VIEW x CASCADE")
    assert db.views() == []
    assert db.audit().ok


@pytest.mark.parametrize(
    ("view", "statement", "reason"),
    [
        (
            "SELECT k, COUNT(*) AS c FROM d JOIN t2 USING (k) GROUP BY k",
            "ALTER TABLE d RENAME COLUMN k TO k2",
            "USING column",
        ),
        ("SELECT * FROM d NATURAL JOIN t2", "ALTER TABLE d RENAME COLUMN k TO k2", "plan would change|select list"),
        ("WITH d2 AS (SELECT * FROM d) SELECT k FROM d2", "ALTER TABLE d RENAME TO d2", "WITH clause defines 'd2'"),
        ("SELECT * EXCEPT (k) FROM d", "ALTER TABLE d RENAME COLUMN name TO n2", "has exceptions"),
    ],
)
def test_a_renaming_that_cannot_be_proven_is_refused(db: tr.Database, view: str, statement: str, reason: str) -> None:
    db.sql("CREATE TABLE t2 (k INT PRIMARY KEY, z INT)")
    db.sql(f"CREATE MATERIALIZED VIEW v AS {view}")
    version = inside(db).catalog.version
    with pytest.raises(Unsupported, match=rf"under view 'v' .*({reason}).*nothing was changed"):
        db.sql(statement)
    assert inside(db).catalog.version == version


def test_a_view_without_a_plan_follows_only_where_that_cannot_matter(db: tr.Database) -> None:
    """Only Spark can run such a query, so no plan proves that a changed text means the same."""
    number = "(SELECT COUNT(n) FROM t WHERE t.g > 0)"
    sql = f"SELECT d.name, MAX(d.k + {number}) OVER (PARTITION BY d.k) AS m FROM d"
    db.sql(f"CREATE MATERIALIZED VIEW v WITH (refresh = 'full') AS {sql}")
    assert inside(db).catalog.view("v").root is None
    for column in ("name", "k"):
        with pytest.raises(Unsupported, match=r"under view 'v' .*has no plan.*nothing was changed"):
            db.sql(f"ALTER TABLE d RENAME COLUMN {column} TO other")
    with pytest.raises(InUse, match="it is read by v"):
        db.sql("ALTER TABLE d DROP COLUMN name")
    db.sql("ALTER TABLE t RENAME COLUMN x TO y; ALTER TABLE t DROP COLUMN p; ALTER TABLE t ADD COLUMN z INT")
    db.sql("ALTER TABLE d RENAME TO e; ALTER TABLE t RENAME TO u")
    assert db.view("v").sql == sql.replace("FROM t", "FROM u AS t").replace("FROM d", "FROM e AS d")
    write(db, random.Random(8), "u", x="y")
    db.refresh()
    verify(db)


def test_builds_go_on_across_an_alter(db: tr.Database) -> None:
    inside(db).builder.chunk = 4
    rng, done = random.Random(5), []

    def on_step(step: Step) -> None:
        write(db, rng)
        if step.rows is not None and not done:
            done.append(step)
            db.sql("ALTER TABLE t ADD COLUMN extra INT DEFAULT 1")
            write(db, rng)
            with pytest.raises(BeingBuilt, match=r"being built and reads table 't'.*DROP VIEW pairs to discard it"):
                db.sql("ALTER TABLE t RENAME COLUMN n TO m")
            with pytest.raises(BeingBuilt, match="'pairs' is being built and reads table 'd'"):
                db.sql("ALTER TABLE d RENAME TO e")
            with pytest.raises(InUse, match=r"'t\.n': it is read by pairs"):
                db.sql("ALTER TABLE t DROP COLUMN n")
            with pytest.raises(BeingBuilt, match="'pairs' is being built"):
                db.sql("ALTER TABLE t DROP COLUMN n CASCADE")
            with pytest.raises(BeingBuilt, match="'pairs' is being built"):
                db.sql("DROP TABLE t CASCADE")
            with pytest.raises((BeingBuilt, NameTaken)):
                db.sql("ALTER TABLE t RENAME TO pairs")
            db.sql("ALTER TABLE t DROP COLUMN h")
            write(db, rng)

    db.sql(f"CREATE MATERIALIZED VIEW pairs AS {VIEWS['pairs']}", progress=on_step)
    assert done
    db.refresh()
    verify(db)
    assert db.audit().ok


def test_snapshots_and_recordings_that_began_before(db: tr.Database, tmp_path: Path, spark: Any) -> None:
    create(db, "stars", "sums")
    db.sql("ALTER TABLE t ADD COLUMN early INT DEFAULT 3")
    db.refresh()
    rng = random.Random(6)
    with db.snapshot() as snapshot, db.record(tmp_path / "history.arrow"):
        was = [sorted(map(str, snapshot.table("t").scan().to_pylist())), snapshot.query("SELECT SUM(n) s FROM t")]
        one = snapshot.table("t").get(5)
        for statement, renamed in (
            ("ALTER TABLE t ADD COLUMN late INT DEFAULT 4", {}),
            ("ALTER TABLE t RENAME COLUMN n TO m", {"n": "m"}),
            ("ALTER TABLE t DROP COLUMN early", {"n": "m"}),
        ):
            db.sql(statement)
            write(db, rng, **renamed)
            db.refresh()
            now = [sorted(map(str, snapshot.table("t").scan().to_pylist())), snapshot.query("SELECT SUM(n) s FROM t")]
            assert now == was
            assert snapshot.table("t").get(5) == one
            assert snapshot.view("stars").scan().num_rows == len(was[0])
    checked = tr.check(tmp_path / "history.arrow", spark=spark)
    assert checked.ok, checked


def test_an_open_epoch_that_recomputes_a_view_follows_its_new_name(db: tr.Database) -> None:
    db.sql("CREATE MATERIALIZED VIEW f WITH (refresh = 'full') AS SELECT g, COUNT(*) AS c FROM t GROUP BY g")
    write(db, random.Random(7))
    crash_before_commit(db)
    db.sql("ALTER VIEW f RENAME TO f2")
    db.refresh()
    verify(db)
    with pytest.raises(SqlError, match="no view named 'f'"):
        db.view("f")
    with pytest.raises(NameTaken, match="table 't'"):
        db.sql("ALTER VIEW f2 RENAME TO t")


def test_failed_views_recover_under_new_names(db: tr.Database) -> None:
    checked = "SELECT k, CASE WHEN name = 'bad' THEN raise_error('no') ELSE name END AS name FROM d"
    db.sql(f"CREATE MATERIALIZED VIEW checked AS {checked}")
    db.sql("CREATE MATERIALIZED VIEW above AS SELECT k FROM checked WHERE name > ''")
    db.table("d").put({"k": 1, "name": "bad"})
    db.refresh()
    db.sql("ALTER VIEW checked RENAME TO renamed; ALTER TABLE d RENAME COLUMN name TO label; ALTER TABLE d RENAME TO e")
    failed = inside(db).catalog.failed
    assert set(failed) == {"renamed", "above"}
    assert "checked" not in {f.because for f in failed.values()}
    db.table("e").put({"k": 1, "label": "good"})
    db.refresh()
    assert not inside(db).catalog.failed
    verify(db)
    assert db.audit().ok
