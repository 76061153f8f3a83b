"""Views with LIMIT and first-rows-per-group equal recomputation after every epoch; reads follow ORDER BY."""

from __future__ import annotations

import random
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from oracle import compare_all_along, plain, verify_all_along, wide_store

import tailrace as tr

VIEWS = [
    "SELECT id, n FROM a ORDER BY n DESC, id LIMIT 3",
    "SELECT h FROM a ORDER BY p NULLS LAST, id DESC LIMIT 4 OFFSET 2",
    "SELECT id, d, x FROM a ORDER BY d DESC NULLS FIRST, x, id OFFSET 3",
    "SELECT id, g, h, rn FROM"
    " (SELECT *, row_number() OVER (PARTITION BY g ORDER BY h DESC, id) AS rn FROM a) WHERE rn <= 2",
    "SELECT id, h FROM a QUALIFY row_number() OVER (PARTITION BY g, b ORDER BY t DESC, id) = 1",
    "WITH q AS (SELECT *, row_number() OVER (PARTITION BY h ORDER BY x, id) AS k FROM a)"
    " SELECT g, p FROM q WHERE k BETWEEN 2 AND 3 AND n IS NOT NULL",
    "SELECT g, h FROM (SELECT g, h FROM a UNION ALL SELECT g, h FROM c) ORDER BY g, h LIMIT 6",
    "SELECT g, sum(p) AS s, count(*) AS k FROM a GROUP BY g ORDER BY s DESC NULLS LAST, g LIMIT 2",
    "SELECT DISTINCT x FROM a ORDER BY x DESC LIMIT 3",
    "SELECT s.g, count(*) AS k FROM (SELECT id, g FROM a ORDER BY n, id LIMIT 5) s GROUP BY s.g",
    "SELECT a.id, q.tag, q.p FROM a JOIN (SELECT id, tag, p FROM c ORDER BY p DESC, id, tag LIMIT 4) q ON a.id = q.id",
    "SELECT id, tag FROM c ORDER BY tag, id DESC",
    "(SELECT g AS k, id FROM a ORDER BY id LIMIT 3) UNION ALL (SELECT g, id FROM c) ORDER BY k DESC, id LIMIT 8",
]
TIES = [
    "SELECT id, n FROM a LIMIT 3",
    "SELECT h, d FROM a ORDER BY b LIMIT 4",
    "SELECT g, b FROM (SELECT g, b, d FROM a UNION ALL SELECT g, b, d FROM c) ORDER BY b DESC LIMIT 5 OFFSET 1",
    "SELECT g, h, d FROM a QUALIFY row_number() OVER (PARTITION BY g ORDER BY b) <= 2",
]


@pytest.fixture
def db(tmp_path: Path, spark: Any) -> Iterator[tr.Database]:
    with wide_store(tmp_path / "store", spark, "ac") as database:
        yield database


@pytest.mark.parametrize("spread", [False, True], ids=["one-task", "all-shards"])
def test_oracle_equals_recompute(db: tr.Database, spread: bool) -> None:
    compare_all_along(db, VIEWS, random.Random(f"top{spread}"), "aac", spread=spread)
    for view in (db.view("v0"), db.view("v2"), db.view("v6"), db.view("v7"), db.view("v8"), db.view("v11")):
        expected = db.query(view.sql).to_pylist()
        actual = view.scan().to_pylist()
        assert [[plain(v) for v in r.values()] for r in actual] == [[plain(v) for v in r.values()] for r in expected]


def test_ties_that_sql_leaves_open_are_broken_the_same_way_in_every_epoch(db: tr.Database) -> None:
    verify_all_along(db, TIES, random.Random("ties"), "aac")


def test_reads_follow_order_by_as_far_as_its_columns_are_in_the_view(db: tr.Database) -> None:
    db.table("a").put_many([{"id": i, "n": i % 3, "h": "zyx"[i % 3] * (i + 1)} for i in range(9)])
    db.sql("CREATE MATERIALIZED VIEW hidden AS SELECT id FROM a ORDER BY n, id")
    db.sql("CREATE MATERIALIZED VIEW part AS SELECT id, h FROM a ORDER BY length(h) DESC LIMIT 4")
    db.sql("CREATE MATERIALIZED VIEW shown AS SELECT h AS k, id, n FROM a ORDER BY a.n DESC, upper(h)")
    db.sql("CREATE MATERIALIZED VIEW counts AS SELECT n, max(h) AS m FROM a GROUP BY n ORDER BY max(h) DESC")
    assert db.view("hidden").scan().column("id").to_pylist() == list(range(9))
    assert db.view("part").scan().column("id").to_pylist() == [5, 6, 7, 8]
    assert db.view("shown").scan().column("n").to_pylist() == [2] * 3 + [1] * 3 + [0] * 3
    assert db.view("shown").scan(limit=4).column("n").to_pylist() == [2, 2, 2, 1]
    assert db.view("counts").scan().column("n").to_pylist() == [0, 1, 2]
