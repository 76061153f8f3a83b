"""Every mistake in a view's SQL raises an SqlError; if Spark found it, the message contains Spark's."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

import tailrace as tr
from tailrace.errors import SqlError, Unsupported

MISTAKES = [
    ("SELECT percentile_cont(DISTINCT 0.5) WITHIN GROUP (ORDER BY n) AS p FROM a", "does not support DISTINCT"),
    ("SELECT listagg(DISTINCT h) WITHIN GROUP (ORDER BY n) AS p FROM a", r"listagg\(DISTINCT ...\) WITHIN GROUP"),
    ("SELECT listagg(DISTINCT h) WITHIN GROUP (ORDER BY h) AS p FROM a", "write array_join"),
    ("SELECT measure(n) AS p FROM a", "metric views"),
    ("SELECT measure(n) OVER () AS p FROM a", "metric views"),
    ("SELECT mode(n) AS p FROM a", r"write mode\(x, true\)"),
    ("SELECT max_by(map('k', n), h) AS p FROM a", "maps cannot be compared"),
    ("SELECT first_value(h) FILTER (WHERE n > 0) OVER (ORDER BY id) AS p FROM a", "FILTER of first_value"),
    ("SELECT id FROM a WHERE h OR n", "incompatible types"),
    ("SELECT nosuch(n) AS p FROM a", "(?i)nosuch"),
    ("SELECT upper(h, n) AS p FROM a", "WRONG_NUM_ARGS"),
    ("SELECT CAST(n AS nosuch) AS p FROM a", "(?i)nosuch"),
    ("SELECT id, sum(n) OVER (ORDER BY h RANGE BETWEEN 1 PRECEDING AND CURRENT ROW) AS p FROM a", "(?i)range"),
    ("SELECT array(n, map(1, 2)) AS p FROM a", "same type"),
    ("SELECT a.id FROM a JOIN b ON a.n = b.n AND EXISTS (SELECT 1 FROM a z WHERE z.n = a.n AND z.id = b.id)", "WHERE"),
    ("SELECT a.id FROM a JOIN b ON a.id + b.id IN (SELECT n FROM a)", "move the condition to WHERE"),
    (
        "SELECT id, (SELECT h FROM b WHERE b.n = a.n + 1 ORDER BY h LIMIT 1) AS p FROM a",
        "would apply the LIMIT first",
    ),
    ("SELECT * FROM a NATURAL SEMI JOIN b", "(?i)natural"),
]


@pytest.fixture(scope="module")
def db(tmp_path_factory: pytest.TempPathFactory, spark: Any) -> Iterator[tr.Database]:
    path: Path = tmp_path_factory.mktemp("errors") / "store"
    with tr.open(path, create=True, spark=spark, map_size=1 << 28) as database:
        database.sql("CREATE TABLE a (id INT PRIMARY KEY, n INT, h STRING)")
        database.sql("CREATE TABLE b (id INT PRIMARY KEY, n INT, h STRING)")
        yield database


@pytest.mark.parametrize(("sql", "message"), MISTAKES, ids=[sql for sql, _ in MISTAKES])
def test_a_mistake_raises_an_sql_error(db: tr.Database, sql: str, message: str) -> None:
    with pytest.raises(SqlError, match=message):
        db.sql(f"CREATE MATERIALIZED VIEW v AS {sql}")
    assert db.views() == []


@pytest.mark.parametrize("refresh", ["auto", "full"])
def test_queries_that_cannot_be_recomputed_are_refused_with_every_policy(db: tr.Database, refresh: str) -> None:
    for sql in (
        "SELECT measure(n) AS p FROM a",
        "SELECT mode(n) AS p FROM a",
        "SELECT kll_sketch_agg_bigint(n) AS p FROM a",
    ):
        with pytest.raises(Unsupported):
            db.sql(f"CREATE MATERIALIZED VIEW v WITH (refresh = '{refresh}') AS {sql}")
    with pytest.raises(SqlError, match="does not support DISTINCT"):
        db.sql(f"CREATE MATERIALIZED VIEW v WITH (refresh = '{refresh}') AS {MISTAKES[0][0]}")
