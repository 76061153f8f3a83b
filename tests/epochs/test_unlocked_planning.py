"""Statements are planned without the epoch lock, so that epochs continue while Spark starts and views are planned."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

import tailrace as tr
from tailrace.database.alter import Alterations
from tailrace.database.define import ViewDefiner
from tailrace.database.inside import inside
from tailrace.database.planned_change import MAX_ATTEMPTS, planned
from tailrace.errors import InUse, SqlError
from tailrace.plan.sql.statements import parse
from tailrace.store.locks import EpochLock


@pytest.fixture
def db(tmp_path: Path, spark: Any) -> Iterator[tr.Database]:
    with tr.open(tmp_path / "s", create=True, spark=spark, map_size=1 << 30, durable=False) as database:
        database.sql("CREATE TABLE t (id INT PRIMARY KEY, n INT, m INT, o INT)")
        database.sql("CREATE MATERIALIZED VIEW v AS SELECT id, n FROM t")
        yield database


def alter(db: tr.Database, sql: str, during: Callable[[], object]) -> str:
    """Runs an ALTER statement. `during` is called when it begins to plan views."""
    store = inside(db).store

    def definer() -> ViewDefiner:
        during()
        return ViewDefiner(db.spark)

    (statement,) = parse(sql)
    return Alterations(store, inside(db).catalog, EpochLock(store), definer).run(statement)  # type: ignore[arg-type]


@pytest.mark.parametrize(
    "sql",
    [
        "ALTER TABLE t DROP COLUMN m",
        "ALTER TABLE t RENAME COLUMN n TO k",
        "ALTER TABLE t RENAME TO u",
        "ALTER VIEW v RENAME TO w",
    ],
)
def test_an_alteration_is_planned_without_the_lock(db: tr.Database, sql: str) -> None:
    db.sql("CREATE MATERIALIZED VIEW over AS SELECT n FROM v")
    calls: list[object] = []
    alter(db, sql, lambda: calls.append(inside(db).store.holder("epoch")))
    assert calls == [None]


def test_a_refused_alteration_needs_no_lock(db: tr.Database) -> None:
    with EpochLock(inside(db).store).held(), pytest.raises(InUse, match=r"'t.n': it is read by v"):
        db.sql("ALTER TABLE t DROP COLUMN n")


def test_an_alteration_is_planned_again_if_the_catalog_has_changed(db: tr.Database) -> None:
    views = iter(["CREATE MATERIALIZED VIEW w AS SELECT m FROM t"])
    with pytest.raises(InUse, match=r"'t.m': it is read by w"):
        alter(db, "ALTER TABLE t DROP COLUMN m", lambda: [db.sql(sql) for sql in views])
    assert "m" in [c.name for c in db.table("t").columns]
    columns = iter(["ALTER TABLE t ADD COLUMN p INT"])
    alter(db, "ALTER TABLE t DROP COLUMN o", lambda: [db.sql(sql) for sql in columns])
    assert [c.name for c in db.table("t").columns] == ["id", "n", "m", "p"]
    db.table("t").put({"id": 1, "n": 2, "m": 3, "p": 4})
    db.refresh()
    assert db.verify("v").ok
    assert db.verify("w").ok


def test_a_catalog_that_keeps_changing_does_not_delay_a_statement_for_ever(db: tr.Database) -> None:
    store, catalog, plans = inside(db).store, inside(db).catalog, list[bool]()

    def plan() -> None:
        is_locked = store.holder("epoch") is not None
        plans.append(is_locked)
        if not is_locked:
            db.sql(f"CREATE TABLE t{len(plans)} (id INT PRIMARY KEY)")

    with planned(catalog, EpochLock(store), plan):
        pass
    assert plans == [False] * MAX_ATTEMPTS + [True]


def test_an_error_counts_only_if_the_catalog_was_the_same_all_the_time(db: tr.Database) -> None:
    attempts = list[int]()

    def plan() -> str:
        attempts.append(1)
        if len(attempts) == 1:
            db.sql("CREATE TABLE other (id INT PRIMARY KEY)")
            raise SqlError(message="read before and after")
        return "planned"

    with planned(inside(db).catalog, EpochLock(inside(db).store), plan) as plan_made:
        assert plan_made == "planned"
