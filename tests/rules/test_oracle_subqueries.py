"""Views with subqueries in expressions equal recomputation after every epoch."""

from __future__ import annotations

import random
from pathlib import Path
from typing import Any

import pytest
from oracle import WIDE, Model, random_step

import tailrace as tr
from tailrace.database.inside import inside

FAMILIES: dict[str, list[str]] = {
    "scalar": [
        "SELECT id, n FROM a WHERE n > (SELECT AVG(n) FROM c)",
        "SELECT id, (SELECT COUNT(*) FROM c) AS n, (SELECT COUNT(*) FROM c WHERE c.g = a.g) AS k,"
        " p - (SELECT SUM(c.p) FROM c WHERE c.g = a.g) AS d FROM a",
        "SELECT id FROM a WHERE p = (SELECT MAX(c.p) FROM c WHERE c.g = a.g)",
        "SELECT id FROM a WHERE (SELECT COUNT(*) FROM c WHERE c.g = a.g AND c.h = a.h) = 0",
        "SELECT id, (SELECT COUNT(*) FROM c WHERE c.p < a.p) AS below,"
        " (SELECT MAX(c.n) FROM c WHERE c.g = a.g AND c.x <> a.x) AS m FROM a",
        "SELECT id, (SELECT COUNT(*) + MAX(c.p) FROM c WHERE c.g <=> a.g HAVING COUNT(*) > 1) AS m,"
        " (SELECT sort_array(collect_list(c.h)) FROM c WHERE c.g = a.g) AS hs FROM a",
        "SELECT id, (SELECT e.h FROM e WHERE e.id = a.g) AS h, (SELECT h FROM e WHERE id = 3) AS three,"
        " (SELECT SUM(c.p) FROM c WHERE c.g = a.g GROUP BY c.g) AS s FROM a",
        "SELECT id, (SELECT k FROM (SELECT COUNT(*) AS k FROM c WHERE c.g = a.g)) AS k,"
        " (SELECT COUNT(*) + (SELECT MAX(e.g) FROM e) FROM c WHERE c.g = a.g) AS l FROM a",
        "SELECT id, (SELECT SUM(c.p) FROM c JOIN e ON c.h = e.h WHERE c.g = a.g AND e.n < a.n) AS s FROM a",
        "SELECT (SELECT COUNT(*) FROM c) AS n, EXISTS (SELECT 1 FROM a WHERE g > 2) AS f",
        "SELECT (SELECT MAX(p) FROM a) AS m WHERE 3 IN (SELECT g FROM c)",
    ],
    "exists": [
        "SELECT id, h FROM a WHERE EXISTS (SELECT 1 FROM c WHERE c.g = a.g)",
        "SELECT id FROM a WHERE NOT EXISTS (SELECT * FROM c WHERE c.g = a.g AND c.b)",
        "SELECT g, h FROM a WHERE NOT EXISTS (SELECT 1 FROM c WHERE c.g = a.g AND c.h <> a.h)",
        "SELECT id FROM a WHERE EXISTS (SELECT 1 FROM c WHERE n > 1) AND NOT EXISTS (SELECT 1 FROM e WHERE d IS NULL)",
        "SELECT id FROM a WHERE EXISTS (SELECT 1 FROM c WHERE c.g = a.g) OR p > 3 OR NOT EXISTS (SELECT 1 FROM e)",
        "SELECT id, EXISTS (SELECT 1 FROM c WHERE c.g = a.g AND c.p < a.p) AS lower FROM a"
        " WHERE CASE WHEN EXISTS (SELECT 1 FROM c WHERE c.h = a.h) THEN n > 0 ELSE b END",
        "SELECT id FROM a WHERE EXISTS (SELECT 1 FROM c WHERE c.g = a.g AND EXISTS"
        " (SELECT 1 FROM e WHERE e.h = c.h AND e.p < c.p))",
        "SELECT id FROM a WHERE EXISTS (SELECT c.h FROM c WHERE c.n > a.n GROUP BY c.h HAVING COUNT(*) > 1)",
    ],
    "in": [
        "SELECT id FROM a WHERE g IN (SELECT g FROM c WHERE b)",
        "SELECT id FROM a WHERE g NOT IN (SELECT g FROM c WHERE b)",
        "SELECT id FROM a WHERE id NOT IN (SELECT id FROM c WHERE p > 0)",
        "SELECT id FROM a WHERE n NOT IN (SELECT n FROM c WHERE c.h = a.h)",
        "SELECT id FROM a WHERE n NOT IN (SELECT n FROM c WHERE c.h = a.h AND c.p < a.p)",
        "SELECT id FROM a WHERE (g, h) IN (SELECT g, h FROM c)",
        "SELECT id FROM a WHERE (id, h) NOT IN (SELECT id, h FROM c WHERE c.d = a.d)",
        "SELECT id FROM a WHERE g IN (SELECT g FROM c GROUP BY g HAVING SUM(p) > 0) OR h NOT IN (SELECT h FROM e)",
        "SELECT id, g IN (SELECT g FROM e) AS i, n NOT IN (SELECT n FROM e WHERE e.g = a.g) AS o,"
        " NOT (b AND n IN (SELECT n FROM c)) AS p, (g, h) NOT IN (SELECT g, h FROM e WHERE b) AS q FROM a",
        "SELECT id FROM a WHERE g IN (SELECT MAX(c.g) FROM c WHERE c.h = a.h)",
        "SELECT id FROM a WHERE n IN (SELECT n FROM c WHERE c.g = a.g UNION ALL SELECT n FROM e WHERE e.h = a.h)",
    ],
    "grouped": [
        "SELECT g, SUM(p) AS s FROM a GROUP BY g HAVING SUM(p) > (SELECT SUM(p) * 0.2 FROM a)",
        "SELECT g, COUNT(*) AS n, g IN (SELECT g FROM e) AS known, (SELECT COUNT(*) FROM e) AS es FROM a GROUP BY g"
        " HAVING EXISTS (SELECT 1 FROM c WHERE c.g = a.g) OR COUNT(*) NOT IN (SELECT g FROM c)",
        "SELECT (SELECT MAX(c.h) FROM c WHERE c.g = a.g) AS m, SUM(p) AS s,"
        " COUNT(*) FILTER (WHERE g NOT IN (SELECT g FROM c WHERE b)) AS o FROM a GROUP BY 1",
        "WITH q AS (SELECT g, SUM(p) AS s FROM a GROUP BY g) SELECT g, s FROM q WHERE s = (SELECT MAX(s) FROM q)",
        "SELECT a.id, c.tag FROM a JOIN c ON a.g = c.g AND a.n IN (SELECT n FROM e) AND c.p > (SELECT MIN(p) FROM e)",
        "SELECT a.id, c.tag FROM a LEFT JOIN c ON a.id = c.id AND c.n IN (SELECT n FROM e) AND"
        " EXISTS (SELECT 1 FROM e WHERE e.g = a.g)",
        "SELECT id FROM a WHERE p > 0 UNION ALL SELECT id FROM e WHERE g IN (SELECT g FROM a WHERE a.p > e.p)",
    ],
    "by-row": [
        "SELECT id, (SELECT c.n FROM c WHERE c.g = a.g AND c.h > a.h ORDER BY c.id, c.tag LIMIT 1) AS m,"
        " (SELECT c.id FROM c WHERE c.x = a.x ORDER BY c.id, c.tag LIMIT 1 OFFSET 1) AS same FROM a",
        "SELECT id, (SELECT q.x FROM (SELECT c.x, c.id, c.tag FROM c WHERE c.g = a.g ORDER BY c.id, c.tag LIMIT 2) q"
        " ORDER BY q.id DESC, q.tag DESC LIMIT 1) AS m FROM a",
        "SELECT id FROM a WHERE EXISTS (SELECT 1 FROM c WHERE c.g = a.g ORDER BY c.id LIMIT 1 OFFSET 1)"
        " AND n > (SELECT c.n FROM c WHERE c.g = a.g ORDER BY c.n DESC NULLS LAST LIMIT 1)",
        "SELECT id, g IN (SELECT g FROM c WHERE c.id = a.id ORDER BY c.tag LIMIT 1) AS f FROM a",
        "SELECT id FROM a WHERE g NOT IN (SELECT g FROM c WHERE c.h = a.h ORDER BY c.id, c.tag LIMIT 2)",
        "SELECT id, (SELECT MAX(r) FROM (SELECT c.n, dense_rank() OVER (ORDER BY c.n) AS r FROM c WHERE c.g = a.g) q"
        " WHERE q.n < a.n) AS m FROM a",
        "SELECT id, (SELECT SUM(w) FROM (SELECT explode(array(c.id, c.g)) AS w FROM c WHERE c.g = a.g) q"
        " WHERE w < a.id) AS m FROM a",
    ],
}


@pytest.fixture
def db(tmp_path: Path, spark: Any) -> Any:
    database = tr.open(tmp_path / "store", create=True, spark=spark, map_size=1 << 30)
    database.sql(f"CREATE TABLE a (id INT PRIMARY KEY, {WIDE})")
    database.sql(f"CREATE TABLE c (id INT, tag STRING, {WIDE}, PRIMARY KEY (id, tag))")
    database.sql(f"CREATE TABLE e (id INT PRIMARY KEY, {WIDE})")
    yield database
    database.close()


@pytest.mark.parametrize("family", list(FAMILIES))
def test_oracle_equals_recompute(db: tr.Database, family: str) -> None:
    rng = random.Random(family)
    model = Model(db)
    if family == "exists":
        inside(db).epochs.jobs.small = -1  # a task for every shard
    for _ in range(0 if family == "grouped" else 6):  # "grouped" starts with empty tables
        random_step(rng, model, rng.choice("ace"), 12)
    for number, sql in enumerate(FAMILIES[family]):
        db.sql(f"CREATE MATERIALIZED VIEW v{number} AS {sql}")
    model.check()
    for changed in ("aaacce", "ce"):
        for _ in range(rng.randrange(4, 12)):
            random_step(rng, model, rng.choice(changed), 12)
        db.refresh()
        model.check()
    for names in ("c", "ae"):  # first the subqueries have no rows, then the outer tables too
        for name in names:
            model.delete(name, [k if len(k) > 1 else k[0] for k in model.tables[name]])
        db.refresh()
        model.check()
