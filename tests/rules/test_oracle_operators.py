"""Views with every operator equal recomputation after every epoch of random operations."""

from __future__ import annotations

import random
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from oracle import compare_all_along, wide_store

import tailrace as tr

FAMILIES: dict[str, list[str]] = {
    "linear": [
        "SELECT * FROM a WHERE n > 0 OR h = 'a'",
        "SELECT id, upper(h) AS u, p * 2 AS q, coalesce(d, DATE '2000-01-01') AS d FROM a",
        "SELECT g, h FROM a WHERE b",
        "SELECT g AS k, p FROM a UNION ALL SELECT g, p FROM c UNION ALL SELECT g, p FROM a WHERE n IS NULL",
        "SELECT split(h, '') AS letters, named_struct('g', g, 'x', x) AS s, map('n', n) AS m, id FROM a",
        "WITH q AS (SELECT id, g + 1 AS g1 FROM a WHERE g > 0) SELECT * FROM q WHERE g1 < 4",
        "SELECT s.k, s.twice FROM (SELECT id AS k, n * 2 AS twice FROM a) s WHERE s.twice <> 0",
    ],
    "inner": [
        "SELECT a.id, c.id AS cid, c.tag, a.h, c.p FROM a JOIN c ON a.g = c.g",
        "SELECT a.id, c.id AS cid, c.tag FROM a, c WHERE a.g = c.g AND a.h = c.h AND a.n > 0",
        "SELECT l.id AS i, r.id AS j FROM a l JOIN a r ON l.g = r.g AND l.id < r.id",
        "SELECT g, a.id, c.tag FROM a JOIN c USING (g, h)",
        "SELECT a.id, c.id AS cid, c.tag, e.id AS eid FROM a JOIN c ON a.g = c.g JOIN e ON c.h = e.h AND a.b = e.b",
        "SELECT a.h, c.h AS ch FROM a JOIN c ON a.id = c.id",
        "SELECT a.x, c.x AS cx FROM a JOIN c ON a.x = c.x",
        "SELECT a.id, c.id AS cid, c.tag FROM a JOIN c ON a.g <=> c.g AND a.p < c.p",
    ],
    "outer": [
        "SELECT a.id, a.g, c.id AS cid, c.tag FROM a LEFT JOIN c ON a.g = c.g",
        "SELECT a.id, c.id AS cid, c.tag, c.h FROM a RIGHT JOIN c ON a.g = c.g AND a.h = c.h",
        "SELECT a.id, c.id AS cid, c.tag FROM a FULL JOIN c ON a.g = c.g",
        "SELECT a.id, a.p, c.tag, c.p AS cp FROM a LEFT JOIN c ON a.g = c.g AND a.p < c.p",
        "SELECT a.id, e.id AS eid FROM a FULL JOIN e ON a.id = e.id AND e.b",
        "SELECT a.h, c.h AS ch, e.h AS eh FROM a LEFT JOIN c ON a.g = c.g LEFT JOIN e ON c.h = e.h",
        "SELECT * FROM a LEFT SEMI JOIN c ON a.g = c.g",
        "SELECT id, h FROM a LEFT ANTI JOIN c ON a.g = c.g AND a.h = c.h",
    ],
    "aggregates": [
        "SELECT g, SUM(p) AS s, COUNT(*) AS n, COUNT(h) AS c, AVG(p) AS ap, AVG(n) AS an FROM a GROUP BY g",
        "SELECT g, h, SUM(n) AS s, SUM(x) AS sx, AVG(x) AS ax FROM a GROUP BY g, h",
        "SELECT g, MIN(p) AS lo, MAX(p) AS hi, MIN(h) AS lh, MAX(h) AS hh, MAX(t) AS ht FROM a GROUP BY g",
        "SELECT g, COUNT(DISTINCT h) AS hs, COUNT(DISTINCT p) AS ps, COUNT(*) AS n FROM a GROUP BY g",
        "SELECT g % 2 AS odd, SUM(p) + COUNT(*) AS mix, MAX(x) AS mx FROM a GROUP BY g % 2 HAVING COUNT(*) > 1",
        "SELECT d, count_if(b) AS yes, SUM(n) FILTER (WHERE b) AS bs, bool_or(b) AS any_b FROM a GROUP BY d",
        "SELECT g, stddev(x) AS sd, percentile(n, 0.5) AS med, sort_array(collect_list(h)) AS hs FROM a GROUP BY g",
        "SELECT h, COUNT(DISTINCT g, d) AS pairs, MAX(b) AS mb, SUM(DISTINCT p) AS sp FROM a GROUP BY h",
        "SELECT b, x, COUNT(*) AS n FROM a GROUP BY b, x",
        "SELECT g, SUM(CAST(p AS DECIMAL(32,4)) * 3) AS w, SUM(CAST(n AS DECIMAL(38,2))) AS v FROM a GROUP BY g",
    ],
    "global": [
        "SELECT COUNT(*) AS n, SUM(p) AS s, AVG(x) AS m, MIN(h) AS lo, MAX(t) AS hi FROM a",
        "SELECT COUNT(*) AS n FROM a WHERE n > 100000000000000",
        "SELECT COUNT(DISTINCT g) AS gs, approx_count_distinct(h) AS hs, median(n) AS m FROM c",
        "SELECT SUM(s) AS total FROM (SELECT g, SUM(p) AS s FROM a GROUP BY g)",
    ],
    "distinct": [
        "SELECT DISTINCT g, h FROM a",
        "SELECT g FROM a UNION SELECT g FROM c",
        "SELECT DISTINCT x FROM a",
        "SELECT COUNT(*) AS n FROM (SELECT DISTINCT g, d FROM a)",
    ],
    "mixed": [
        "SELECT c.h, SUM(a.p) AS s, COUNT(*) AS n, MAX(a.d) AS d FROM a JOIN c ON a.g = c.g GROUP BY c.h",
        "SELECT a.id, q.s FROM a JOIN (SELECT g, SUM(n) AS s FROM c GROUP BY g) q ON a.g = q.g WHERE q.s > 0",
        "SELECT a.g, COUNT(c.id) AS n FROM a LEFT JOIN c ON a.id = c.id GROUP BY a.g",
        "SELECT k, SUM(p) AS s FROM (SELECT g AS k, p FROM a UNION ALL SELECT g, -p FROM c) GROUP BY k",
        "SELECT l.g, COUNT(*) AS n, AVG(l.x * r.x) AS xx FROM a l JOIN a r ON l.h = r.h GROUP BY l.g",
    ],
}


@pytest.fixture
def db(tmp_path: Path, spark: Any) -> Iterator[tr.Database]:
    with wide_store(tmp_path / "store", spark, "ace") as database:
        yield database


@pytest.mark.parametrize("spread", [False, True], ids=["one-task", "all-shards"])
@pytest.mark.parametrize("family", list(FAMILIES))
def test_oracle_equals_recompute(db: tr.Database, family: str, spread: bool) -> None:
    compare_all_along(db, FAMILIES[family], random.Random(f"{family}{spread}"), "aaacce", spread=spread, epochs=2)
