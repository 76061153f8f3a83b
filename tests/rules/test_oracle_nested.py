"""Views over tables with arrays, maps, structs and intervals equal Spark's answer after every epoch."""

from __future__ import annotations

import random
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import UTC, datetime, timedelta
from decimal import Decimal
from pathlib import Path
from typing import Any

import pytest
from oracle import Model, Row, either, plain

import tailrace as tr
from tailrace.database.inside import inside
from tailrace.errors import SqlError, Unsupported

NAN = float("nan")
COLUMNS = """id INT PRIMARY KEY, k INT, a ARRAY<DOUBLE>, s STRUCT<x: INT, Y: STRING>, m MAP<STRING, ARRAY<INT>>,
             n ARRAY<STRUCT<p: DECIMAL(8,2), t: TIMESTAMP>>, i INTERVAL DAY TO SECOND"""

LINEAR = [
    "SELECT id, a, s, m, n, i FROM t WHERE s IS NOT NULL OR size(a) = 0",
    "SELECT id, s.x AS x, s.y AS y, a[0] AS a0, element_at(m, 'k') AS mk, n[0].p AS p, map_keys(m) AS names FROM t",
    "SELECT m, n FROM t",
    "SELECT id, e FROM t LATERAL VIEW OUTER explode(a) q AS e",
    "SELECT id, name, v FROM t LATERAL VIEW explode(m) q AS name, v",
    "SELECT id, z.p, z.t + INTERVAL 1 DAY AS later FROM t LATERAL VIEW inline(n) z AS p, t",
    "SELECT id, named_struct('q', s, 'w', m) AS st, map('x', a) AS mx, transform(a, x -> x * 2) AS twice FROM t",
    "SELECT id, map_from_arrays(array('a', 'a'), array(1, id)) AS last, arrays_zip(a, array(1)) AS z FROM t",
    "SELECT id, i * 2 AS i2, i + INTERVAL '1' HOUR AS i3, n[0].t - TIMESTAMP '2026-01-01' AS since FROM t",
    "SELECT id, m FROM t UNION ALL SELECT id, map('x', array(k)) FROM u",
]
STATEFUL = [
    "SELECT s, count(*) AS c, min(a) AS lo, max(a) AS hi FROM t GROUP BY s",
    "SELECT a, count(*) AS c FROM t GROUP BY a",
    "SELECT i, count(*) AS c, sum(k) AS sk FROM t GROUP BY i",
    "SELECT sum(i) AS total, avg(i) AS mean, min(i) AS lo, max(i) AS hi, count(DISTINCT i) AS c FROM t",
    "SELECT min(i) AS lo, max(i) AS hi, count(DISTINCT i) AS c FROM t",
    "SELECT k, sort_array(collect_list(s)) AS l, max_by(m, id) AS last, max(struct(id, a)) AS top FROM t GROUP BY k",
    "SELECT DISTINCT s, a FROM t",
    "SELECT t.id, t.m, t.n, u.id AS uid, u.a FROM t JOIN u ON t.k = u.k",
    "SELECT t.id, u.id AS uid, t.m FROM t JOIN u ON t.s = u.s",
    "SELECT t.id, u.m FROM t LEFT JOIN u ON t.i = u.i AND t.k = u.k",
    "SELECT id, a FROM t WHERE a IN (SELECT a FROM u)",
    "SELECT s FROM t EXCEPT SELECT s FROM u",
    "SELECT id, (SELECT max(u.s) FROM u WHERE u.k = t.k) AS top FROM t",
    "SELECT id, lead(m) OVER (PARTITION BY k ORDER BY id) AS following, rank() OVER (ORDER BY s) AS r FROM t",
    "SELECT id, m, a FROM t ORDER BY i DESC, id LIMIT 4",
]


def random_row(rng: random.Random, key: int) -> Row:
    def number() -> Any:
        return rng.choice([0.0, -0.0, 1.5, NAN, None])

    def fields() -> Any:
        return {"x": rng.choice([1, 2, None]), "Y": rng.choice(["a", "", None])}

    def entry() -> Any:
        moment = datetime(2026, 1, 1, rng.randrange(3), tzinfo=UTC)
        return rng.choice([None, {"p": rng.choice([None, Decimal("1.50")]), "t": rng.choice([None, moment])}])

    names = rng.sample(["k", "z", ""], rng.randrange(3))  # equal maps may have another order of entries
    return {
        "id": key,
        "k": either(rng, lambda: rng.randrange(3)),
        "a": either(rng, lambda: [number() for _ in range(rng.randrange(3))]),
        "s": either(rng, fields),
        "m": either(rng, lambda: [(name, rng.choice([None, [], [1, None]])) for name in names]),
        "n": either(rng, lambda: [entry() for _ in range(rng.randrange(3))]),
        "i": either(rng, lambda: timedelta(hours=rng.choice([-30, 0, 1]), microseconds=rng.randrange(2))),
    }


def write(rng: random.Random, model: Model, name: str) -> None:
    """Puts, updates and deletes some rows."""
    model.put(name, [random_row(rng, key) for key in rng.sample(range(12), 4)])
    present = list(model.tables[name])
    changed = random_row(rng, rng.choice(present)[0])
    model.update(name, {c: changed[c] for c in ("id", *rng.sample(["a", "s", "m", "n", "i"], 2))})
    model.delete(name, [key for (key,) in rng.sample(present, 2)])


@contextmanager
def nested_store(path: Path, spark: Any) -> Iterator[tr.Database]:
    with tr.open(path, create=True, spark=spark, map_size=1 << 30, durable=False) as db:
        nested_tables(db)
        yield db


def nested_tables(db: tr.Database) -> None:
    db.sql(f"CREATE TABLE t ({COLUMNS}); CREATE TABLE u ({COLUMNS})")


def follow_nested(db: tr.Database, views: list[str], *, spread: bool, epochs: int) -> None:
    """Builds views over random rows; runs epochs of random writes, then deletes all rows. Compares each time."""
    rng, model = random.Random(7), Model(db)
    if spread:
        inside(db).epochs.jobs.small = -1
    for name in "tu":
        write(rng, model, name)
    db.sql(";".join(f"CREATE MATERIALIZED VIEW v{i} AS {sql}" for i, sql in enumerate(views)))
    model.check()
    for _ in range(epochs):
        for name in "ttu":
            write(rng, model, name)
        db.refresh()
        model.check()
    for name, rows in model.tables.items():
        model.delete(name, [key for (key,) in rows])
    db.refresh()
    model.check()


@pytest.mark.parametrize(("views", "spread"), [(LINEAR, True), (STATEFUL, False), (STATEFUL, True)])
def test_views_equal_recomputation(tmp_path: Path, spark: Any, views: list[str], spread: bool) -> None:
    with nested_store(tmp_path / "s", spark) as db:
        follow_nested(db, views, spread=spread, epochs=2)


def test_verify_audit_and_recording(tmp_path: Path, spark: Any) -> None:
    rng = random.Random(3)
    with nested_store(tmp_path / "s", spark) as db:
        model = Model(db)
        write(rng, model, "t")
        db.sql("""CREATE MATERIALIZED VIEW keyed AS SELECT id, m, array(m) AS ms, s, i, CAST(k AS DOUBLE) AS x FROM t;
                  CREATE MATERIALIZED VIEW bag AS SELECT a, struct(m) AS sm, n FROM t;
                  CREATE MATERIALIZED VIEW arrays AS SELECT a, s, COUNT(*) AS c FROM t GROUP BY a, s""")
        with db.record(tmp_path / "h.arrow", ["keyed", "bag"]):
            for _ in range(2):
                write(rng, model, "t")
                db.refresh()
        assert all(db.verify(name).ok for name in db.views())
        for row in db.view("arrays").scan().to_pylist():
            assert plain(db.view("arrays").get((row["a"], row["s"]))) == plain(row)
        assert db.audit().ok
        checked = tr.check(tmp_path / "h.arrow", spark=spark)
        assert checked.ok, checked


REFUSED = [
    ("SELECT m, count(*) AS c FROM t GROUP BY m", "GROUP BY a map"),
    ("SELECT count(*) AS c FROM t GROUP BY struct(m)", "GROUP BY a map"),
    ("SELECT id, INTERVAL '1-2' YEAR TO MONTH AS i FROM t", "type INTERVAL YEAR TO MONTH"),
    ("SELECT id, make_interval(1) AS i FROM t", "type INTERVAL"),
    ("SELECT id, parse_json('1') AS v FROM t", "type VARIANT"),
    ("SELECT id, 'a' COLLATE UTF8_LCASE AS c FROM t", "type STRING COLLATE UTF8_LCASE"),
]


def test_refusals(tmp_path: Path, spark: Any) -> None:
    with nested_store(tmp_path / "s", spark) as db:
        for sql, construct in REFUSED:
            with pytest.raises(Unsupported) as caught:
                db.sql(f"CREATE MATERIALIZED VIEW v AS {sql}")
            assert caught.value.construct == construct
        for sql in ("SELECT DISTINCT m FROM t", "SELECT id FROM t WHERE m = m", "SELECT max(m) AS x FROM t"):
            with pytest.raises(SqlError):  # Spark's own rules
                db.sql(f"CREATE MATERIALIZED VIEW v AS {sql}")
