"""Views with subqueries in expressions equal recomputation after every epoch."""

from __future__ import annotations

import random
from pathlib import Path
from typing import Any

import pytest
from oracle import WIDE, Model, random_row, random_step

import tailrace as tr
from tailrace.database.inside import inside
from tailrace_fuzz.model import assert_same, interpreted

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

# Views with subqueries that read columns two or three levels outside, each with a query without such subqueries that
# must return the same rows.
DEEP: dict[str, list[tuple[str, str]]] = {
    "conditions": [
        (
            "SELECT id FROM a WHERE EXISTS (SELECT 1 FROM c WHERE c.g = a.g AND EXISTS"
            " (SELECT 1 FROM e WHERE e.n = a.n))",
            "SELECT DISTINCT a.id FROM a JOIN c ON c.g = a.g JOIN e ON e.n = a.n",
        ),
        (
            "SELECT id FROM a WHERE EXISTS (SELECT 1 FROM c WHERE c.g > a.g AND EXISTS"
            " (SELECT 1 FROM e WHERE e.h = c.h AND e.n < a.n))",
            "SELECT DISTINCT a.id FROM a JOIN c ON c.g > a.g JOIN e ON e.h = c.h AND e.n < a.n",
        ),
        (
            "SELECT id FROM a WHERE NOT EXISTS (SELECT 1 FROM c WHERE c.g = a.g AND NOT EXISTS"
            " (SELECT 1 FROM e WHERE e.h = c.h AND e.n <=> a.n))",
            "SELECT id FROM a LEFT ANTI JOIN (SELECT p.id FROM (SELECT a.id, a.n, c.h FROM a JOIN c ON c.g = a.g) p"
            " LEFT ANTI JOIN e ON e.h = p.h AND e.n <=> p.n) q USING (id)",
        ),
        (
            "SELECT id FROM a WHERE g NOT IN (SELECT c.g FROM c WHERE c.h = a.h AND c.n IN"
            " (SELECT e.n FROM e WHERE e.d = a.d))",
            "SELECT id FROM a LEFT ANTI JOIN (SELECT a.id FROM a JOIN c ON c.h = a.h JOIN e ON e.n = c.n AND e.d = a.d"
            " WHERE a.g = c.g OR a.g IS NULL OR c.g IS NULL) q USING (id)",
        ),
        (
            "SELECT id FROM a WHERE p > ANY (SELECT c.p FROM c WHERE c.g >= ALL (SELECT e.g FROM e WHERE e.h = a.h))",
            "SELECT DISTINCT a.id FROM a JOIN (SELECT a.id, c.p FROM a CROSS JOIN c LEFT JOIN e ON e.h = a.h"
            " GROUP BY a.id, c.id, c.tag, c.p, c.g HAVING BOOL_AND(e.id IS NULL OR COALESCE(c.g >= e.g, FALSE))) q"
            " ON q.id = a.id AND a.p > q.p",
        ),
        (
            "SELECT id FROM a WHERE n IN (SELECT c.n FROM c WHERE EXISTS (SELECT 1 FROM e WHERE e.h = a.h AND"
            " e.g = c.g) UNION ALL SELECT e.n FROM e WHERE e.g IN (SELECT c.g FROM c WHERE c.h = a.h))",
            "SELECT a.id FROM a JOIN c ON c.n = a.n JOIN e ON e.h = a.h AND e.g = c.g UNION"
            " SELECT a.id FROM a JOIN e ON e.n = a.n JOIN c ON c.g = e.g AND c.h = a.h",
        ),
        (
            "SELECT id FROM a WHERE EXISTS (SELECT 1 FROM c WHERE c.g = a.g AND EXISTS (SELECT 1 FROM e WHERE e.h = c.h"
            " AND e.id < a.id AND EXISTS (SELECT 1 FROM a x WHERE x.n = a.n AND x.g = c.g AND x.id <> e.id)))",
            "SELECT DISTINCT a.id FROM a JOIN c ON c.g = a.g JOIN e ON e.h = c.h AND e.id < a.id"
            " JOIN a x ON x.n = a.n AND x.g = c.g AND x.id <> e.id",
        ),
        (
            "SELECT id FROM a WHERE EXISTS (SELECT 1 FROM e JOIN c ON c.g = e.g AND EXISTS"
            " (SELECT 1 FROM a x WHERE x.n = a.n AND x.id > e.id) WHERE c.h = a.h)",
            "SELECT DISTINCT a.id FROM a JOIN c ON c.h = a.h JOIN e ON c.g = e.g JOIN a x ON x.n = a.n AND x.id > e.id",
        ),
    ],
    "values": [
        (
            "SELECT id, (SELECT COUNT(*) FROM c WHERE c.g = a.g AND c.n IN"
            " (SELECT n FROM e WHERE e.h = a.h)) AS k FROM a",
            "SELECT a.id, COUNT(q.tag) FROM a LEFT JOIN (SELECT DISTINCT a.id, c.id AS i, c.tag FROM a"
            " JOIN c ON c.g = a.g JOIN e ON e.n = c.n AND e.h = a.h) q ON q.id = a.id GROUP BY a.id",
        ),
        (
            "SELECT id, (SELECT q.k + (SELECT COUNT(*) FROM e WHERE e.g <=> a.g) FROM"
            " (SELECT COUNT(*) AS k FROM c WHERE c.h = a.h) q) AS s FROM a",
            "SELECT x.id, x.k + y.k FROM (SELECT a.id, COUNT(c.id) AS k FROM a LEFT JOIN c ON c.h = a.h"
            " GROUP BY a.id) x JOIN (SELECT a.id, COUNT(e.id) AS k FROM a LEFT JOIN e ON e.g <=> a.g GROUP BY a.id) y"
            " ON x.id = y.id",
        ),
        (
            "SELECT id, EXISTS (SELECT c.h FROM c WHERE c.g = a.g GROUP BY c.h HAVING COUNT(*) >"
            " (SELECT COUNT(*) FROM e WHERE e.n = a.n)) AS f FROM a",
            "SELECT y.id, COALESCE(MAX(x.k > y.k), FALSE) FROM (SELECT a.id, COUNT(e.id) AS k FROM a"
            " LEFT JOIN e ON e.n = a.n GROUP BY a.id) y LEFT JOIN (SELECT a.id, c.h, COUNT(*) AS k FROM a"
            " JOIN c ON c.g = a.g GROUP BY a.id, c.h) x ON x.id = y.id GROUP BY y.id",
        ),
        (
            "SELECT id, (SELECT c.id FROM c WHERE c.g = a.g AND EXISTS (SELECT 1 FROM e WHERE e.n = a.n)"
            " ORDER BY c.id, c.tag LIMIT 1) AS m FROM a",
            "SELECT a.id, MIN(CASE WHEN e.n IS NOT NULL THEN c.id END) FROM a LEFT JOIN c ON c.g = a.g"
            " LEFT JOIN (SELECT DISTINCT n FROM e) e ON e.n = a.n GROUP BY a.id",
        ),
        (
            "SELECT id, (SELECT MAX(r) FROM (SELECT rank() OVER (ORDER BY c.n) AS r FROM c WHERE c.g = a.g"
            " AND c.h <> ALL (SELECT e.h FROM e WHERE e.h IS NOT NULL AND e.d = a.d)) q) AS m FROM a",
            "SELECT a.id, MAX(q.r) FROM a LEFT JOIN (SELECT p.id, rank() OVER (PARTITION BY p.id ORDER BY p.n) AS r"
            " FROM (SELECT a.id, a.d, c.n, c.h FROM a JOIN c ON c.g = a.g) p LEFT JOIN (SELECT d, COUNT(*) AS hs,"
            " collect_set(h) AS found FROM e WHERE h IS NOT NULL AND d IS NOT NULL GROUP BY d) w ON w.d = p.d"
            " WHERE w.d IS NULL OR NOT array_contains(w.found, p.h)) q ON q.id = a.id GROUP BY a.id",
        ),
        (
            "SELECT id, (SELECT (SELECT MAX(e.p) FROM e WHERE e.g = a.g)) AS m FROM a",
            "SELECT a.id, MAX(e.p) FROM a LEFT JOIN e ON e.g = a.g GROUP BY a.id",
        ),
    ],
    "relations": [
        (
            "SELECT a.id AS aid, s.* FROM a, LATERAL (SELECT * FROM e WHERE e.g = a.g AND NOT EXISTS"
            " (SELECT 1 FROM c WHERE c.h = a.h AND c.id = e.id)) s",
            "SELECT a.id AS aid, e.* FROM a JOIN e ON e.g = a.g LEFT JOIN (SELECT DISTINCT id, h FROM c) c"
            " ON c.h = a.h AND c.id = e.id WHERE c.id IS NULL",
        ),
        (
            "SELECT a.id, s.i FROM a, LATERAL (SELECT r.i FROM e, LATERAL (SELECT c.id AS i FROM c"
            " WHERE c.g = e.g AND c.n >= a.n) r WHERE e.h = a.h) s",
            "SELECT a.id, c.id FROM a JOIN e ON e.h = a.h JOIN c ON c.g = e.g AND c.n >= a.n",
        ),
        (
            "SELECT a.id, e.id AS i FROM a LEFT JOIN e ON a.g = e.g WHERE EXISTS (SELECT 1 FROM c WHERE c.h = a.h"
            " AND EXISTS (SELECT 1 FROM a x WHERE x.n <=> e.n AND x.id <> c.id))",
            "SELECT DISTINCT a.id, e.id FROM a LEFT JOIN e ON a.g = e.g JOIN c ON c.h = a.h"
            " JOIN a x ON x.n <=> e.n AND x.id <> c.id",
        ),
        (
            "WITH q AS (SELECT id, g, n FROM a WHERE b) SELECT id FROM q WHERE EXISTS (WITH r AS (SELECT * FROM c)"
            " SELECT 1 FROM r WHERE r.g = q.g AND EXISTS (SELECT 1 FROM e WHERE e.n = q.n))",
            "SELECT DISTINCT a.id FROM a JOIN c ON c.g = a.g JOIN e ON e.n = a.n WHERE a.b",
        ),
        (
            "SELECT g, COUNT(*) AS k FROM a GROUP BY g HAVING EXISTS (SELECT 1 FROM (SELECT c.h FROM c WHERE EXISTS"
            " (SELECT 1 FROM e WHERE e.g = a.g AND e.h = c.h)) q WHERE q.h <> '')",
            "SELECT g, COUNT(*) FROM a LEFT SEMI JOIN (SELECT e.g FROM c JOIN e ON e.h = c.h WHERE c.h <> '') q"
            " USING (g) GROUP BY g",
        ),
        (
            "SELECT a.id, e.id AS i FROM a JOIN e ON a.g = e.g AND EXISTS (SELECT 1 FROM c WHERE c.h = a.h AND EXISTS"
            " (SELECT 1 FROM a x WHERE x.n = a.n AND x.id = c.id))",
            "SELECT DISTINCT a.id, e.id FROM a JOIN e ON a.g = e.g JOIN c ON c.h = a.h JOIN a x ON x.n = a.n"
            " AND x.id = c.id",
        ),
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


@pytest.mark.parametrize("family", list(DEEP))
def test_references_over_several_levels(db: tr.Database, family: str) -> None:
    """The views equal the other queries; `model.check` also compares them with Spark's answers to their stored SQL."""
    rng = random.Random(family)
    model = Model(db)
    filled: set[int] = set()

    def check() -> None:
        model.check()
        answers = interpreted(db.spark)
        model.show(answers, model.tables)
        for number, (sql, other) in enumerate(DEEP[family]):
            rows = db.view(f"v{number}").scan()
            assert_same(rows, answers.sql(other).toDF(*rows.column_names).toArrow(), sql)
            if rows.num_rows:
                filled.add(number)

    for name in "ace":
        tag = {"tag": "k0"} if name == "c" else {}
        model.put(name, [{"id": i, **tag, **random_row(rng)} for i in range(24)])
    db.sql(";".join(f"CREATE MATERIALIZED VIEW v{i} AS {sql}" for i, (sql, _) in enumerate(DEEP[family])))
    check()
    for changed in ("aaacce", "ce"):
        for _ in range(rng.randrange(4, 12)):
            random_step(rng, model, rng.choice(changed), 12)
        db.refresh()
        check()
    for name in "cae":
        model.delete(name, [k if len(k) > 1 else k[0] for k in model.tables[name]])
        db.refresh()
        check()
    assert filled == set(range(len(DEEP[family])))
