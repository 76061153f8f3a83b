"""Views with LATERAL subqueries, scalar subqueries that are checked, and ANY and ALL, equal recomputation."""

from __future__ import annotations

import random
from pathlib import Path
from typing import Any

import pytest
from oracle import compare_all_along, wide_store

import tailrace as tr
from tailrace.database.inside import inside
from tailrace.errors import BuildFailed, EpochFailed, RowFailed

# Of the keys (id, tag) of table `c`, the tests use only one tag for each id. Groups of one row become known as such
# only by their count.
SINGLE = "g IN (SELECT g FROM c GROUP BY g HAVING COUNT(*) = 1)"
FAMILIES: dict[str, tuple[str, list[str]]] = {
    "joins": (
        "aacce",
        [
            "SELECT a.id, s.tag, s.n FROM a, LATERAL (SELECT tag, n FROM c WHERE c.g = a.g) s",
            "SELECT a.g, s.n FROM a LEFT JOIN LATERAL (SELECT n FROM c WHERE c.g = a.g AND c.p < a.p) s ON s.n <> a.n",
            "SELECT q.g, s.h FROM (SELECT g FROM a) q JOIN LATERAL (SELECT DISTINCT h FROM c WHERE c.g = q.g) s",
            "SELECT a.id, s.w FROM a, LATERAL (SELECT c.n AS w FROM c WHERE c.g = a.g"
            " UNION ALL SELECT e.n FROM e WHERE e.h = a.h) s",
            "SELECT a.id, s.h, t.id AS eid FROM a, LATERAL (SELECT h, n FROM c WHERE c.id = a.id) s"
            " LEFT JOIN LATERAL (SELECT e.id FROM e WHERE e.h = s.h AND e.id > a.id) t ON TRUE",
            "SELECT a.id, s.tag, s.eid FROM a CROSS JOIN LATERAL (SELECT c.tag, t.eid FROM c, LATERAL"
            " (SELECT e.id AS eid FROM e WHERE e.g = c.g) t WHERE c.h = a.h) s",
            "SELECT a.id, s.tag, s.n FROM a, LATERAL"
            " (SELECT c.tag, e.n FROM c LEFT JOIN e ON c.g = e.g AND e.n + c.id < a.n WHERE c.h = a.h) s",
            "SELECT id FROM a WHERE EXISTS"
            " (SELECT 1 FROM c, LATERAL (SELECT 1 AS o FROM e WHERE e.id = c.id) s WHERE c.g = a.g)",
        ],
    ),
    "aggregates": (
        "aaccc",
        [
            "SELECT a.id, s.n, s.m FROM a, LATERAL (SELECT COUNT(*) AS n, MAX(c.p) AS m FROM c WHERE c.g = a.g) s",
            "SELECT a.g, s.n FROM a LEFT JOIN LATERAL (SELECT COUNT(*) AS n FROM c WHERE c.h = a.h) s ON s.n > 1",
            "SELECT s.n, COUNT(*) AS k FROM a, LATERAL (SELECT COUNT(*) AS n FROM c WHERE c.p < a.p) s GROUP BY s.n",
            "SELECT a.id, s.h, s.m FROM a, LATERAL"
            " (SELECT c.h, SUM(c.p) AS m FROM c WHERE c.g = a.g GROUP BY c.h HAVING COUNT(*) > 1) s",
            "SELECT a.id, s.n FROM a LEFT JOIN LATERAL"
            " (SELECT COUNT(*) AS n FROM c WHERE c.g = a.g HAVING COUNT(*) > 2) s ON TRUE",
            "SELECT a.id, s.y, t.z FROM a, LATERAL (SELECT a.g + 1 AS y, a.n AS o) s,"
            " LATERAL (SELECT s.y * a.id AS z) t WHERE t.z > 2",
            "SELECT a.id, s.w FROM a, LATERAL (SELECT a.g AS w UNION ALL SELECT a.id WHERE a.b) s",
        ],
    ),
    "first rows": (
        "aaccc",
        [
            "SELECT a.id, s.tag, s.n FROM a, LATERAL"
            " (SELECT tag, n, id FROM c WHERE c.g = a.g ORDER BY c.n DESC, c.id, c.tag LIMIT 2) s",
            "SELECT a.h, s.cid FROM a LEFT JOIN LATERAL"
            " (SELECT c.id AS cid FROM c WHERE c.h = a.h ORDER BY c.id, c.tag LIMIT 1 OFFSET 1) s ON TRUE",
            "SELECT a.id, s.cid FROM a, LATERAL (SELECT c.id AS cid FROM c WHERE c.p < a.p"
            " ORDER BY c.p DESC, c.id, c.tag LIMIT 1) s",
            "SELECT a.id, s.cid, s.r FROM a, LATERAL"
            " (SELECT c.id AS cid, rank() OVER (ORDER BY c.p) AS r FROM c WHERE c.g = a.g) s WHERE s.r < 3",
            "SELECT a.id, s.w FROM a, LATERAL (SELECT explode(array(c.id, c.g)) AS w FROM c WHERE c.g = a.g) s",
        ],
    ),
    "single rows": (
        "aacce",
        [
            "SELECT id, (SELECT c.n FROM c WHERE c.id = a.id) AS n, (SELECT c.x FROM c WHERE c.id = a.id) AS x FROM a",
            f"SELECT id, (SELECT c.tag FROM c WHERE c.g = a.g) AS t FROM a WHERE {SINGLE}",
            f"SELECT id, (SELECT c.h FROM c WHERE c.g = a.g AND c.n <> a.n) AS h FROM a WHERE {SINGLE}",
            f"SELECT id, (SELECT array(c.h, c.tag) FROM c WHERE c.g = a.g) AS hs,"
            f" (SELECT map('n', c.n) FROM c WHERE c.g = a.g) AS ns FROM a WHERE {SINGLE}",
            "SELECT id FROM a WHERE p > (SELECT c.p FROM c WHERE c.id = a.id) OR b",
            "SELECT id FROM a WHERE p > (SELECT c.p FROM c WHERE c.id = a.id)",
            "SELECT id, (SELECT c.h FROM c WHERE c.id = 3) AS three FROM a",
            "SELECT id, (SELECT c.tag FROM c WHERE c.id = a.id AND NOT EXISTS (SELECT 1 FROM e WHERE e.id = c.id)) AS t"
            " FROM a",
            "SELECT (SELECT c.h FROM c WHERE c.id = a.g) AS h, COUNT(*) AS n FROM a GROUP BY 1",
        ],
    ),
    "quantified": (
        "aaccc",
        [
            "SELECT id FROM a WHERE n > ALL (SELECT n FROM c WHERE c.g = a.g)",
            "SELECT id FROM a WHERE NOT n < SOME (SELECT n FROM c WHERE c.g = a.g)"
            " OR g = ANY (SELECT g FROM c WHERE b)",
            "SELECT id FROM a WHERE p >= ANY (SELECT p FROM c) AND h <> ALL (SELECT h FROM c WHERE c.g = a.g)",
            "SELECT id, n <= ALL (SELECT n FROM c WHERE c.g = a.g) AS l, g = ANY (SELECT g FROM c) AS e FROM a",
        ],
    ),
}


@pytest.mark.parametrize("family", list(FAMILIES))
def test_equals_recomputation(tmp_path: Path, spark: Any, family: str) -> None:
    changed, views = FAMILIES[family]
    with wide_store(tmp_path / "store", spark, "".join(sorted(set(changed)))) as db:
        compare_all_along(db, views, random.Random(family), changed, spread=family == "single rows", epochs=2)


VIEW = "CREATE MATERIALIZED VIEW v AS SELECT id, (SELECT c.n FROM c WHERE c.g = a.g) AS n FROM a"
SEVERAL = "the scalar subquery (SELECT c.n FROM c WHERE c.g = a.g) returned 2 rows for g = 1; it may return only one"


@pytest.fixture
def db(tmp_path: Path, spark: Any) -> Any:
    with wide_store(tmp_path / "store", spark, "ac") as database:
        database.table("c").put_many([{"id": 1, "tag": "x", "g": 1, "n": 10}, {"id": 2, "tag": "x", "g": 1, "n": 20}])
        yield database


def rows(db: tr.Database) -> list[tuple[Any, ...]]:
    return [tuple(row.values()) for row in db.view("v").scan().to_pylist()]


@pytest.mark.parametrize("spread", [False, True], ids=["one task", "a task for each shard"])
def test_only_outer_rows_that_meet_several_rows_fail(db: tr.Database, spread: bool) -> None:
    if spread:
        inside(db).epochs.small = -1
    db.sql(VIEW)
    db.table("a").put_many([{"id": 1, "g": 2}, {"id": 2, "g": None}])
    db.refresh()
    assert rows(db) == [(1, None), (2, None)]
    with db.transaction() as changes:  # the second row of the group leaves as the first outer row meets it
        changes.table("a").put({"id": 3, "g": 1})
        changes.table("c").delete((2, "x"))
    db.refresh()
    assert rows(db) == [(1, None), (2, None), (3, 10)]
    db.table("c").put({"id": 2, "tag": "x", "g": 1, "n": 10})  # an equal value is a second row, too
    with pytest.raises(EpochFailed) as caught:
        db.refresh()
    assert SEVERAL in str(caught.value)
    assert isinstance(caught.value.cause, RowFailed)
    assert rows(db) == [(1, None), (2, None), (3, 10)]


def test_a_view_over_rows_that_already_violate_is_refused(db: tr.Database) -> None:
    db.table("a").put({"id": 1, "g": 1})
    with pytest.raises(BuildFailed, match="returned 2 rows for g = 1"):
        db.sql(VIEW)
    assert db.views() == []
    db.table("c").delete((2, "x"))
    db.sql(VIEW)
    assert rows(db) == [(1, 10)]


def test_a_large_build_checks_whole_tables_not_chunks(db: tr.Database) -> None:
    """Over the first chunks the group has two rows, because NOT EXISTS has not seen its rows yet."""
    inside(db).builder.chunk = 1
    db.table("a").put_many([{"id": 1, "g": 1}, {"id": 9, "n": 20}])
    db.sql(
        "CREATE MATERIALIZED VIEW v AS SELECT id, (SELECT c.n FROM c WHERE c.g = a.g"
        " AND NOT EXISTS (SELECT 1 FROM a AS o WHERE o.n = c.n)) AS n FROM a"
    )
    assert rows(db) == [(1, 10), (9, None)]


def test_without_a_correlation_the_check_needs_no_outer_row(db: tr.Database) -> None:
    with pytest.raises(BuildFailed, match=r"\(SELECT n FROM c\) returned 2 rows; it may return only one"):
        db.sql("CREATE MATERIALIZED VIEW v AS SELECT id, (SELECT n FROM c) AS n FROM a")
