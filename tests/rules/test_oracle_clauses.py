"""Views with every supported SQL clause equal recomputation after every epoch: set operations, generated rows,
grouping sets, constants, PIVOT, joins under any condition, variances, and a broad sample of Spark's expressions."""

from __future__ import annotations

import random
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from oracle import WIDE, Model, random_row, random_step

import tailrace as tr
from tailrace.database.inside import inside

FAMILIES: dict[str, list[str]] = {
    "sets": [
        "SELECT g, h FROM a INTERSECT SELECT g, h FROM c",
        "SELECT g, h FROM a INTERSECT ALL SELECT g, h FROM c",
        "SELECT g, b FROM a EXCEPT SELECT g, b FROM c",
        "SELECT g, b FROM a EXCEPT ALL SELECT g, b FROM c",
        "SELECT id, g FROM a MINUS ALL SELECT id, g FROM e",
        "SELECT x FROM a INTERSECT SELECT p FROM c",
        "SELECT g FROM a UNION ALL SELECT g FROM c INTERSECT SELECT id FROM e EXCEPT SELECT 3",
        "SELECT g, COUNT(*) AS n FROM (SELECT g, h FROM a INTERSECT ALL SELECT g, h FROM c) GROUP BY g",
        "SELECT h FROM a INTERSECT SELECT NULL",
    ],
    "generated": [
        "SELECT id, w FROM a LATERAL VIEW explode(split(h, '')) e AS w",
        "SELECT id, pos, w FROM a LATERAL VIEW OUTER posexplode(sequence(1, g)) e AS pos, w",
        "SELECT id, w, z FROM a LATERAL VIEW explode(array(g, id)) e AS w LATERAL VIEW explode(array(w, 0)) f AS z "
        "WHERE z IS NOT NULL",
        "SELECT w, COUNT(*) AS n, SUM(p) AS s FROM a LATERAL VIEW explode(array(g, g + 1, 2)) e AS w GROUP BY w",
        "SELECT id, explode(map('g', g, 'i', id)) AS (k, v) FROM a",
        "SELECT DISTINCT explode(array(g, id % 3)) AS w FROM a",
        "SELECT g, inline(arrays_zip(sort_array(collect_list(id)), sort_array(collect_list(h)))) AS (i, j) "
        "FROM a GROUP BY g",
        "SELECT id, stack(2, 'g', g, 'i', id) AS (what, v) FROM a WHERE b",
        "SELECT a.id, s.w, c.tag FROM a, LATERAL explode(array(g, id)) AS s(w) JOIN c ON c.g = s.w",
        "SELECT id, s.w FROM a LEFT JOIN LATERAL explode(filter(array(g, id), i -> i > 2)) AS s(w) ON TRUE",
        "SELECT id, j.c0 FROM a LATERAL VIEW json_tuple(concat('{\"g\":', g, '}'), 'g') j",
    ],
    "grouping-sets": [
        "SELECT g, h, COUNT(*) AS n, SUM(p) AS s FROM a GROUP BY ROLLUP (g, h)",
        "SELECT g, b, grouping(g) AS gg, grouping_id() AS i, SUM(x) AS s, MAX(d) AS m, COUNT(DISTINCT h) AS k, "
        "SUM(g) AS sg FROM a GROUP BY CUBE (g, b)",
        "SELECT g, h, COUNT(*) AS n FROM a GROUP BY GROUPING SETS ((g), (h), (g), ())",
        "SELECT g, d, COUNT(*) AS n FROM a GROUP BY g, ROLLUP (d), GROUPING SETS ((b), ())",
        "SELECT g % 2 AS k, median(n) AS m FROM a GROUP BY g % 2 WITH ROLLUP HAVING COUNT(*) > 1",
        "SELECT COUNT(*) AS n, SUM(p) AS s FROM a GROUP BY GROUPING SETS (())",
        "SELECT k, SUM(n) AS n FROM (SELECT g AS k, COUNT(*) AS n FROM a GROUP BY ROLLUP (g)) GROUP BY k",
        "SELECT g, h, COUNT(*) AS n FROM a GROUP BY ALL",
    ],
    "constants": [
        "SELECT 1 AS one, 'x' AS h",
        "SELECT v.k, v.name, COUNT(a.id) AS n FROM (VALUES (0, 'zero'), (1, 'one'), (NULL, 'none')) v(k, name) "
        "LEFT JOIN a ON a.g = v.k GROUP BY v.k, v.name",
        "WITH q(k) AS (VALUES (1), (1), (2)) SELECT a.id, q.k FROM a JOIN q ON a.g = q.k",
        "SELECT id FROM a UNION ALL SELECT 7 UNION ALL SELECT * FROM range(3)",
        "SELECT r.id, SUM(a.p) AS s FROM range(0, 5) r LEFT JOIN a ON a.g = r.id GROUP BY r.id",
        "SELECT a.id, s.w FROM a, explode(array(10, 20)) AS s(w)",
        "SELECT * FROM VALUES (1, 'a'), (2L, NULL)",
        "SELECT COUNT(*) AS n, MAX(w) AS m FROM VALUES (1), (5), (NULL) AS v(w)",
        "SELECT q.n, k FROM (SELECT COUNT(*) AS n FROM a) q CROSS JOIN (SELECT 5 AS k)",
    ],
    "pivot": [
        "SELECT * FROM (SELECT g, h, p FROM a) PIVOT (SUM(p) AS s, COUNT(*) AS n FOR h IN ('a', 'b' AS bee, NULL))",
        "SELECT * FROM (SELECT g, h, b, n FROM a) PIVOT (MAX(n) FOR (h, b) IN (('a', TRUE) AS at, ('b', FALSE) AS bf))",
        "SELECT * FROM (SELECT g, n FROM a) PIVOT (COUNT(n) AS c, MIN(n) + 1 AS m FOR g IN (0, 1, 2))",
        "SELECT * FROM (SELECT g, d, h FROM a) PIVOT (COUNT(h) AS c, MAX(h) AS m FOR g IN (0, 1))",
        "SELECT * FROM (SELECT id, g, n FROM a) UNPIVOT (v FOR what IN (g, n))",
        "SELECT * FROM (SELECT tag, id, g, h, n, p FROM c) "
        "UNPIVOT INCLUDE NULLS ((v, w) FOR what IN ((g, h), (n, h) AS nh))",
        "SELECT * FROM (SELECT g, h, p FROM a) JOIN (SELECT g, n FROM e) USING (g) PIVOT (SUM(p) FOR h IN ('a', 'b'))",
        "SELECT * FROM (SELECT g, h, p FROM a) FULL JOIN (SELECT g, b FROM e) USING (g) "
        "PIVOT (COUNT(p) AS c, MAX(h) AS m FOR b IN (TRUE, FALSE))",
        "SELECT * FROM (SELECT g, h, p FROM a) RIGHT JOIN (SELECT g, b FROM e) USING (g) "
        "PIVOT (SUM(p) AS s, COUNT(*) AS c FOR g IN (0, 1 AS one))",
        "SELECT * FROM (SELECT id, g, h FROM a) PIVOT (max_by(h, id) AS m, COUNT(*) AS c FOR g IN (1, 2))",
        "SELECT what, SUM(v) AS s FROM (SELECT g, n, p FROM a) UNPIVOT (v FOR what IN (g, n AS `the n`)) GROUP BY what",
    ],
    "joins": [
        "SELECT a.id, c.id AS cid, c.tag FROM a LEFT JOIN c ON a.g < c.g",
        "SELECT a.id, c.id AS cid, c.tag FROM a RIGHT JOIN c ON a.g = c.g AND a.p < c.p AND c.b",
        "SELECT a.id, c.id AS cid, c.tag, c.h FROM a FULL JOIN c ON a.g = c.g AND a.p < c.p AND a.b AND c.n > 0",
        "SELECT a.id, e.id AS eid FROM a FULL JOIN e ON a.b AND NOT e.b",
        "SELECT a.id, a.b, c.tag FROM a LEFT JOIN c ON a.g = c.g AND a.b WHERE a.n IS NOT NULL",
        "SELECT id, h FROM a LEFT SEMI JOIN c ON a.g = c.g AND a.p < c.p",
        "SELECT h FROM a LEFT ANTI JOIN c ON a.g = c.g AND (a.p < c.p OR a.b)",
        "SELECT g, b FROM a LEFT ANTI JOIN e ON a.x > e.x AND a.b",
        "SELECT * FROM (SELECT id, g, id + 1 AS i FROM a) LEFT SEMI JOIN e USING (g)",
        "SELECT * FROM (SELECT id, g, h, id + 1 AS i FROM a) LEFT ANTI JOIN c USING (h, g)",
        "SELECT l.id AS i, r.id AS j FROM a l LEFT JOIN a r ON l.g = r.g AND l.id < r.id",
        "SELECT g, h, a.id, e.id AS eid FROM a NATURAL FULL JOIN (SELECT g, h, id + 100 AS id FROM e) e",
        "SELECT g, COUNT(*) AS n, SUM(e.p) AS s FROM a LEFT JOIN e USING (g) GROUP BY g",
        "SELECT a.g, c.h FROM a LEFT JOIN c ON a.g + 1 = c.g - 1 AND a.h <=> c.h",
        "SELECT q.id, e.id AS eid FROM (SELECT a.id, c.p FROM a LEFT JOIN c ON a.g = c.g AND a.p < c.p) q "
        "JOIN e ON q.p < e.p",
    ],
    "aggregates": [
        "SELECT g, var_pop(x) AS vp, var_samp(x) AS vs, variance(p) AS v, stddev(n) AS sd, stddev_pop(g) AS sp, "
        "stddev_samp(x) AS ss, std(p) AS s FROM a GROUP BY g",
        "SELECT stddev(x) FILTER (WHERE b) AS sd, var_pop(DISTINCT g) AS v, COUNT(*) AS n FROM a",
        "SELECT h, stddev(p) AS sd, AVG(p) AS ap, MIN(p) AS lo, SUM(x) AS sx FROM a GROUP BY h",
        "SELECT g, COUNT(DISTINCT h) FILTER (WHERE b) AS k, MAX(n) FILTER (WHERE d > '2026-01-02') AS m, "
        "COUNT(*) FILTER (WHERE h IS NULL) AS z, AVG(x) FILTER (WHERE b) AS ax, min_by(h, id) FILTER (WHERE b) AS mb, "
        "percentile_cont(0.5) WITHIN GROUP (ORDER BY n) FILTER (WHERE b) AS pc FROM a GROUP BY g",
        "SELECT COUNT(DISTINCT g) AS e1, COUNT(DISTINCT h, d) AS e2, SUM(DISTINCT p) AS e3, AVG(DISTINCT n) AS e4 "
        "FROM a",
        "SELECT upper(h) AS u, d AS day, SUM(n) AS s FROM a GROUP BY u, 2 HAVING s > 0 OR day IS NULL",
        "SELECT b, regr_count(n, p) AS rc, corr(n, x) AS co, covar_pop(p, x) AS cp, kurtosis(n) AS k FROM a GROUP BY b",
    ],
}  # fmt: skip

ONE_TASK, ALL_SHARDS = 50_000, -1  # values of `small`: up to this many operations, an epoch runs in one task

EXPRESSIONS = """
    SELECT id, date_trunc('MONTH', t) AS e1, t + INTERVAL 90 MINUTES AS e2, d - INTERVAL '1' MONTH AS e3,
        d + make_interval(0, 1, 0, 2) AS e4, datediff(d, DATE '2026-01-01') AS e5, CAST(p AS INT) AS e6,
        TRY_CAST(h AS DOUBLE) AS e7, CAST(t AS DATE) AS e8, EXTRACT(DOW FROM d) AS e9,
        date_format(t, 'yyyy-MM-dd HH') AS e10,
        CASE g WHEN 0 THEN 'none' WHEN 1 THEN 'one' ELSE concat('g', g) END AS e11,
        CASE WHEN n > 0 AND p < 0 THEN n ELSE -n END AS e12, nullif(g, 0) AS e13, nvl2(h, 'y', 'n') AS e14,
        if(b, x, -x) AS e15, coalesce(h, CAST(g AS STRING), 'z') AS e16, h LIKE 'a%' OR h RLIKE '^b' AS e17,
        h || '-' || g AS e18, substring(h, 1, 1) AS e19, trim(BOTH 'a' FROM h) AS e20, lpad(h, 4, '*') AS e21,
        regexp_replace(h, 'a|b', '_') AS e22, split(concat_ws(',', h, g, n), ',')[1] AS e23, md5(h) AS e24,
        sha2(h, 256) AS e25,
        array(g, id, NULL) AS e26, array_contains(array(1, 2), g) AS e27, transform(sequence(1, 3), i -> i * g) AS e28,
        aggregate(array(1, 2), 0, (s, i) -> s + i) AS e29, exists(array(g), i -> i > 1) AS e30, size(array(g)) AS e31,
        element_at(map('a', g), 'a') AS e32, map_keys(map(id, h)) AS e33, named_struct('g', g, 'h', h).g AS e34,
        struct(g, h) AS e35, from_json('{"k": 3}', 'k INT').k AS e36, to_json(named_struct('g', g)) AS e37,
        greatest(g, id) AS e38, round(x, 1) AS e39, bround(p, 1) AS e40, p / 3 AS e41, n % 7 AS e42, g DIV 2 AS e43,
        pow(x, 2) AS e44, abs(n) AS e45, g & 1 AS e46, g ^ 3 AS e47, ~g AS e48, g << 2 AS e49, hex(n) AS e50,
        h IN ('a', 'b') AS e51, g BETWEEN 1 AND 2 AS e52, (g, h) IN ((1, 'a'), (2, 'b')) AS e53, g <=> NULL AS e54,
        NOT b AS e55, b IS NOT TRUE AS e56, g IS DISTINCT FROM id AS e57, 1.5BD * p AS e58, 2L + g AS e59,
        X'0A' AS e60, r'\\d' AS e61, typeof(p) AS e62, make_date(2026, 1, id + 1) AS e63, unix_timestamp(t) AS e64,
        timestampadd(HOUR, g, t) AS e65, last_day(d) AS e66, next_day(d, 'MON') AS e67,
        months_between(d, DATE '2020-01-01') AS e68,
        cardinality(array_distinct(array(g, id))) AS e69, flatten(array(array(g), array(id))) AS e70,
        arrays_zip(array(g), array(h)) AS e71, zip_with(array(g), array(id), (l, r) -> l + r) AS e72,
        map_filter(map('a', g), (k, v) -> v > 0) AS e73, str_to_map('a:1,b:2') AS e74, xxhash64(g, h) AS e75,
        width_bucket(x, 0, 10, 5) AS e76, initcap(h) AS e77, translate(h, 'ab', 'xy') AS e78,
        overlay(h PLACING 'q' FROM 1) AS e79,
        position('a' IN h) AS e80, h COLLATE UTF8_BINARY AS e81, cast(map('k', g) AS map<string, bigint>) AS e82,
        h LIKE ANY ('a%', 'b%') AS e83, h NOT LIKE ALL ('a%', 'b%') AS e84, h ILIKE 'A%' AS e85, g :: string AS e86,
        d + INTERVAL '1-2' YEAR TO MONTH AS e87, t - INTERVAL '1 02:03:04' DAY TO SECOND AS e88,
        timestampdiff(MINUTE, t, TIMESTAMP '2026-01-01 00:00:00') AS e89, datediff(MONTH, d, DATE '2026-05-01') AS e90,
        TIMESTAMP_NTZ '2026-01-01 00:00:00' AS e91, try_divide(g, 0) AS e92, substr(h FROM 2 FOR 1) AS e93,
        decode(g, 1, 'a', 2, 'b', 'c') AS e94, sequence(d, d + INTERVAL 3 DAYS, INTERVAL 1 DAY) AS e95,
        reduce(array(1, g), 0, (s, i) -> s + i, s -> s * 2) AS e96, array(named_struct('a', g))[0].a AS e97,
        array_sort(array(g, id), (l, r) -> CASE WHEN l < r THEN -1 WHEN l > r THEN 1 ELSE 0 END) AS e98,
        from_csv('1,x', 'a INT, b STRING') AS e99, schema_of_json('{"a": 1}') AS e100
    FROM a WHERE NOT (h = 'b' AND g > 2) OR h IS NULL
"""


@pytest.fixture
def db(tmp_path: Path, spark: Any) -> Iterator[tr.Database]:
    database = tr.open(tmp_path / "store", create=True, spark=spark, map_size=1 << 30)
    database.sql(f"CREATE TABLE a (id INT PRIMARY KEY, {WIDE})")
    database.sql(f"CREATE TABLE c (id INT, tag STRING, {WIDE}, PRIMARY KEY (id, tag))")
    database.sql(f"CREATE TABLE e (id INT PRIMARY KEY, {WIDE})")
    yield database
    database.close()


def delete_all(model: Model) -> None:
    for name in "ace":
        model.delete(name, [k if len(k) > 1 else k[0] for k in model.tables[name]])


@pytest.mark.parametrize("family", list(FAMILIES))
def test_oracle_clauses(db: tr.Database, family: str) -> None:
    """Builds and epochs alternate between one task for all shards and one task per shard."""
    rng = random.Random(family)
    model = Model(db)
    for _ in range(6):
        random_step(rng, model, rng.choice("ace"), 12)
    for number, sql in enumerate(FAMILIES[family]):
        inside(db).epochs.jobs.small = ONE_TASK if number % 2 else ALL_SHARDS
        db.sql(f"CREATE MATERIALIZED VIEW v{number} AS {sql}")
    for small in (ONE_TASK, ALL_SHARDS):
        for _ in range(rng.randrange(2, 12)):
            random_step(rng, model, rng.choice("aaacce"), 12)
        inside(db).epochs.jobs.small = small
        db.refresh()
        model.check()
    delete_all(model)
    inside(db).epochs.jobs.small = ONE_TASK
    db.refresh()
    model.check()


def test_views_of_empty_tables_and_first_rows(db: tr.Database) -> None:
    """Over empty tables: constants have rows, a grand total has one row, ROLLUP groups have none."""
    model = Model(db)
    for number, sql in enumerate((*FAMILIES["grouping-sets"][:6], *FAMILIES["constants"][:2], *FAMILIES["pivot"][:3])):
        db.sql(f"CREATE MATERIALIZED VIEW v{number} AS {sql}")
    model.check()
    model.put("a", [{"id": 1, **random_row(random.Random(1))}])
    db.refresh()
    model.check()
    delete_all(model)
    db.refresh()
    model.check()


def test_a_broad_sample_of_expressions(db: tr.Database) -> None:
    model, rng = Model(db), random.Random(7)
    for _ in range(3):
        random_step(rng, model, "a", 12)
    db.sql(f"CREATE MATERIALIZED VIEW v AS {EXPRESSIONS}")
    model.check()
    for _ in range(8):
        random_step(rng, model, "a", 12)
    db.refresh()
    model.check()


def test_a_view_over_a_view_shares_the_join_with_its_condition(db: tr.Database) -> None:
    model, rng = Model(db), random.Random(3)
    db.sql(
        "CREATE MATERIALIZED VIEW v AS SELECT a.id, a.g, c.id AS cid, c.tag "
        "FROM a LEFT JOIN c ON a.g = c.g AND a.p < c.p"
    )
    states = len(inside(db).catalog.states)
    db.sql("CREATE MATERIALIZED VIEW w AS SELECT id, tag FROM v WHERE tag IS NULL")
    db.sql("CREATE MATERIALIZED VIEW u AS SELECT id, cid, tag, g FROM v")
    assert len(inside(db).catalog.states) <= 2 * states
    assert db.view("v").key == ["id", "cid", "tag"]
    for _ in range(10):
        random_step(rng, model, rng.choice("ac"), 12)
    db.refresh()
    model.check()


def test_variance_is_exact_after_extreme_values_are_deleted(db: tr.Database) -> None:
    db.sql("CREATE MATERIALIZED VIEW v AS SELECT var_pop(x) AS v, stddev(x) AS s FROM a")
    table = db.table("a")
    table.put_many([{"id": i, "x": 0.1 * i} for i in range(4)])
    db.refresh()
    before = db.view("v").get()
    table.put_many([{"id": 100 + i, "x": 1e300 * (-1) ** i} for i in range(5)])
    table.put({"id": 200, "x": float("nan")})
    db.refresh()
    table.delete_many([*range(100, 105), 200])
    db.refresh()
    assert db.view("v").get() == before
