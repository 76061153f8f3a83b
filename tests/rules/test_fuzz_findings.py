"""What the fuzzer found, made small: each is a story that ends in a comparison with recomputation."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import pytest
from oracle import Model

import tailrace as tr
from tailrace.database.inside import inside
from tailrace.errors import Unsupported

Write = tuple[str, str, list[dict[str, Any]]]


@pytest.fixture
def db(tmp_path: Path, spark: Any) -> Iterator[tr.Database]:
    with tr.open(tmp_path / "s", create=True, spark=spark, map_size=1 << 28) as database:
        yield database


def story(
    db: tr.Database, tables: Sequence[str], views: Sequence[str], *epochs: Sequence[Write], spread: bool = False
) -> None:
    """Tables, the first writes, views over them, and further epochs; everything is checked after each."""
    for ddl in tables:
        db.sql(ddl)
    inside(db).epochs.jobs.small = -1 if spread else 50_000
    model = Model(db)
    for number, writes in enumerate(epochs):
        for kind, name, rows in writes:
            key = db.table(name).key
            if kind == "put":
                model.put(name, rows)
            elif kind == "update":
                model.update(name, rows[0])
            else:
                model.delete(name, [tuple(r[k] for k in key) if len(key) > 1 else r[key[0]] for r in rows])
        if number == 0:
            for view, sql in enumerate(views):
                db.sql(f"CREATE MATERIALIZED VIEW v{view} AS {sql}")
        db.refresh()
        model.check()


def test_a_struct_of_one_column_twice_inside_an_aggregate(db: tr.Database) -> None:
    story(
        db,
        ["CREATE TABLE a (id INT PRIMARY KEY, g INT, n INT)"],
        ["SELECT g, max_by(id, struct(n, n)) AS m FROM a GROUP BY g"],
        [],
        [("put", "a", [{"id": 1, "g": 1, "n": 2}, {"id": 2, "g": 1, "n": 3}])],
    )


def test_a_struct_of_one_column_twice_is_refused_as_a_column(db: tr.Database) -> None:
    db.sql("CREATE TABLE a (id INT PRIMARY KEY, n INT)")
    for struct in ("struct(n, n)", "named_struct('x', n, 'x', id)"):
        with pytest.raises(Unsupported):
            db.sql(f"CREATE MATERIALIZED VIEW v AS SELECT id, {struct} AS s FROM a")


def test_a_semi_join_with_a_condition_over_both_sides_of_the_join_below(db: tr.Database) -> None:
    story(
        db,
        ["CREATE TABLE b (id INT PRIMARY KEY, tiny INT, g INT)"],
        [
            "SELECT t1.id, (SELECT MAX(id) FROM b) AS m FROM b t1 JOIN b t2 ON t1.tiny = t2.tiny "
            "LEFT SEMI JOIN b t3 ON t2.id = t3.id AND t1.g <= t3.id",
            "SELECT t2.id FROM b t1 JOIN b t2 ON t1.tiny = t2.tiny "
            "LEFT ANTI JOIN b t3 ON t2.id = t3.id AND t2.g <= t3.id",
        ],
        [("put", "b", [{"id": i, "tiny": i % 2, "g": 5 - i} for i in range(6)])],
        [("put", "b", [{"id": 2, "tiny": 1, "g": 0}]), ("delete", "b", [{"id": 5}])],
    )


def test_rows_of_constants_alone_are_counted(db: tr.Database) -> None:
    story(
        db,
        ["CREATE TABLE b (id INT PRIMARY KEY)"],
        [
            "SELECT id FROM b WHERE EXISTS (SELECT 1 FROM VALUES (1) AS v(x))",
            "SELECT COUNT(*) AS n FROM VALUES (1) AS v(x)",
            "SELECT id, (SELECT COUNT(*) FROM VALUES (1), (2) AS v(x)) AS n FROM b",
        ],
        [("put", "b", [{"id": 1}])],
        [("put", "b", [{"id": 2}])],
    )


def test_a_view_that_shares_states_keeps_the_names_of_its_columns(db: tr.Database) -> None:
    story(
        db,
        ["CREATE TABLE b (id INT PRIMARY KEY, f INT, s STRING)"],
        [
            "SELECT x.id, y.s FROM b x JOIN b y ON x.id = y.f",
            "SELECT f AS c3, s AS c4, COUNT(*) AS c5 FROM b GROUP BY f, s",
            "SELECT c4, c5 FROM v1",
        ],
        [("put", "b", [{"id": 1, "f": 1, "s": "a"}])],
    )


@pytest.mark.parametrize("spread", [False, True])
def test_a_filter_that_spark_knows_to_be_false_does_not_end_the_task(db: tr.Database, spread: bool) -> None:
    """Spark would not even start a task for a frame without rows, but the task has other things to do."""
    never = "WHERE date_format(DATE '2026-01-31', 'yyyy') < CAST(CAST(NULL AS DOUBLE) AS STRING)"
    story(
        db,
        ["CREATE TABLE a (id INT PRIMARY KEY, g INT)", "CREATE TABLE b (id INT PRIMARY KEY, n INT)"],
        [
            f"SELECT b.id, n, s FROM b LEFT JOIN (SELECT g, SUM(id) AS s FROM a {never} GROUP BY g) t ON n = g",
            f"SELECT n, COUNT(*) AS c, s FROM b LEFT JOIN (SELECT SUM(id) AS s FROM a {never} HAVING max(g) > 1) "
            "ON b.id = s GROUP BY n, s",
        ],
        [("put", "b", [{"id": 1, "n": 1}])],
        [("put", "a", [{"id": 1, "g": 1}]), ("put", "b", [{"id": 2, "n": 2}])],
        [("delete", "b", [{"id": 1}, {"id": 2}])],
        spread=spread,
    )
