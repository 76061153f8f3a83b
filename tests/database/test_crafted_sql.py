"""Hostile names, literals and nesting work or are refused; nothing outside the store is touched."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path

import pytest
from pyspark.sql import SparkSession

import tailrace as tr
from tailrace.errors import SqlError, TailraceError, Unsupported
from tailrace.loading import load

NAMES = [
    "../../x",
    "/etc/passwd",
    "a`b",
    "x`; DROP TABLE `keep",
    "a'b\"c",
    "$(touch harm) & ; | > < {0} %s",
    "-- a.b\\",
    "naïve 名前 😀\n",
    "x" * 128,
]
STORE_FILES = {"store.json", "base", "shards", "data.mdb", "lock.mdb", "epoch.lock", "runner.lock", "000", "001"}


def quoted(name: str) -> str:
    return "`" + name.replace("`", "``") + "`"


@pytest.fixture
def db(tmp_path: Path, spark: SparkSession) -> Iterator[tr.Database]:
    (tmp_path / "a" / "b").mkdir(parents=True)
    with tr.open(
        tmp_path / "a" / "b" / "store", create=True, nodes=1, durable=False, map_size=1 << 28, spark=spark
    ) as database:
        database.sql("CREATE TABLE keep (id BIGINT PRIMARY KEY, s STRING)")
        yield database


def all_file_names(root: Path) -> set[str]:
    return {name for _, directories, files in os.walk(root) for name in (*directories, *files)}


def test_the_directory_that_spark_spills_to_is_private(spark: SparkSession) -> None:
    assert spark._jvm is not None
    scratch = Path(spark._jvm.System.getProperty("java.io.tmpdir"))
    spark.range(1000).repartition(3).count()
    assert any(scratch.glob("blockmgr-*")), "Spark keeps its files elsewhere"
    assert (scratch.stat().st_mode & 0o777, scratch.stat().st_uid) == (0o700, os.geteuid())


def test_hostile_names_are_only_names(db: tr.Database, tmp_path: Path) -> None:
    for number, name in enumerate(NAMES):
        shown = f"v{number}" if len(name) > 120 else f"v {name}"
        table, view, column = quoted(name), quoted(shown), quoted(f"c {name[:100]}")
        db.sql(f"CREATE TABLE {table} (id BIGINT PRIMARY KEY, {column} STRING)")
        db.sql(
            f"CREATE MATERIALIZED VIEW {view} AS SELECT {column}, COUNT(*) AS n, MAX(id) AS {quoted('m' + name[:99])}"
            f" FROM {table} GROUP BY {column}"
        )
        db.table(name).put({"id": 7, f"c {name[:100]}": name})
    db.refresh()
    for number, name in enumerate(NAMES):
        shown = f"v{number}" if len(name) > 120 else f"v {name}"
        assert db.view(shown).get(name) == {f"c {name[:100]}": name, "n": 1, "m" + name[:99]: 7}
    for name in ("a`b", "x`; DROP TABLE `keep", "a'b\"c"):  # only three of them: each costs a job or two
        assert db.verify(f"v {name}").ok
        rows = db.query(f"SELECT v.{quoted('c ' + name)} AS c FROM {quoted('v ' + name)} v, {quoted(name)} t")
        assert rows.to_pylist()[0]["c"] == name
    for number, name in enumerate(NAMES):
        db.drop(f"v{number}" if len(name) > 120 else f"v {name}")
        db.drop(name)
    assert db.tables() == ["keep"]
    assert all_file_names(tmp_path) <= STORE_FILES | {"a", "b", "store"}


@pytest.mark.parametrize("name", ["a\0b", "", " ", "x" * 129, "😀" * 125, "İ" * 128 + "x", "\ud800"])
def test_invalid_names_are_refused(tmp_path: Path, name: str) -> None:
    with tr.open(tmp_path / "store", create=True, map_size=1 << 26) as db:
        with pytest.raises(SqlError):
            db.sql(f"CREATE TABLE {quoted(name)} (id BIGINT PRIMARY KEY)")
        with pytest.raises(SqlError):
            db.sql(f"CREATE TABLE t ({quoted(name)} BIGINT PRIMARY KEY)")
        for lookup in (db.table, db.view, db.drop):
            with pytest.raises(TailraceError):
                lookup(name)
        assert db.tables() == []


def test_the_longest_names_allowed(tmp_path: Path) -> None:
    with tr.open(tmp_path / "store", create=True, map_size=1 << 26) as db:
        for name in ("x" * 128, "😀" * 120, "é" * 128):
            db.sql(f"CREATE TABLE `{name}` (id BIGINT PRIMARY KEY)")
            db.table(name).put({"id": 1})
            assert db.table(name).get(1) == {"id": 1}


LITERALS = ["' OR '1'='1", "it's", "a\\", "\\' OR TRUE --", '"', "`", "%s {0}", "--", "/* */", "\n", "😀", "_0", "\0"]


def test_literals_are_values(db: tr.Database) -> None:
    db.table("keep").put_many([{"id": i, "s": s} for i, s in enumerate(LITERALS)])
    for number, text in enumerate(LITERALS):
        literal = "'" + text.replace("\\", "\\\\").replace("'", "\\'") + "'"
        db.sql(
            f"CREATE MATERIALIZED VIEW v{number} AS SELECT id, concat(s, {literal}) AS t FROM keep WHERE s = {literal}"
        )
        assert db.view(f"v{number}").scan().to_pylist() == [{"id": number, "t": text * 2}]


@pytest.mark.parametrize(
    "text",
    [
        "WITH a AS (SELECT 1) INSERT INTO keep SELECT * FROM a",
        "FROM keep INSERT OVERWRITE DIRECTORY '{place}' USING csv SELECT *",
        "INSERT OVERWRITE DIRECTORY '{place}' USING csv SELECT 1",
        "CREATE TABLE x USING csv LOCATION '{place}' AS SELECT 1",
        "SET spark.sql.ansi.enabled = true",
        "CLEAR CACHE",
        "ADD JAR '{place}'",
        "DROP TABLE keep",
    ],
)
def test_a_query_does_nothing_but_read(db: tr.Database, tmp_path: Path, text: str) -> None:
    for run in (db.query, db.sql) if not text.startswith("DROP") else (db.query,):
        if run == db.sql and text.startswith("CREATE TABLE"):
            continue
        with pytest.raises((Unsupported, SqlError)):
            run(text.format(place=tmp_path / "harm"))
    assert not (tmp_path / "harm").exists()
    assert db.tables() == ["keep"]


DEEP = {
    "parentheses": "SELECT " + "(" * 5000 + "1" + ")" * 5000 + " AS x FROM keep",
    "sums": "SELECT id, " + " + ".join(["id"] * 5000) + " AS x FROM keep",
    "cases": "SELECT id, " + "CASE WHEN id = 1 THEN " * 5000 + "1" + " END" * 5000 + " AS x FROM keep",
    "queries": "SELECT * FROM (" * 2000 + "SELECT id FROM keep" + ")" * 2000,
    "unions": " UNION ALL ".join(["SELECT id FROM keep"] * 1500),
    "conditions": "SELECT id FROM keep WHERE " + " AND ".join(f"id <> {i}" for i in range(600)),
    "functions": "SELECT " + "abs(" * 1000 + "id" + ")" * 1000 + " AS x FROM keep",
}


@pytest.mark.parametrize("kind", DEEP)
def test_deep_nesting_works_or_raises_an_sql_error(db: tr.Database, kind: str) -> None:
    db.table("keep").put({"id": 1, "s": "x"})
    for run in (db.query, lambda text: db.sql(f"CREATE MATERIALIZED VIEW deep AS {text}")):
        with suppress(SqlError):
            run(DEEP[kind])
    assert db.sql("SHOW TABLES") is not None
    assert db.query("SELECT 1 AS x").to_pylist() == [{"x": 1}]


def test_keys_longer_than_lmdb_allows(tmp_path: Path) -> None:
    with tr.open(tmp_path / "store", create=True, map_size=1 << 28) as db:
        db.sql("CREATE TABLE t (a STRING, b BINARY, n INT, PRIMARY KEY (a, b))")
        keys = [("x" * 10_000, b"\0" * 5000), ("x" * 10_000, b"\0" * 5001), ("x" * 10_001, b""), ("x" * 480, b"")]
        db.table("t").put_many([{"a": a, "b": b, "n": n} for n, (a, b) in enumerate(keys)])
        assert [db.table("t").get(key)["n"] for key in keys] == [0, 1, 2, 3]


def test_a_row_of_a_hundred_megabytes(tmp_path: Path) -> None:
    with tr.open(tmp_path / "store", create=True, map_size=1 << 30) as db:
        db.sql("CREATE TABLE t (id INT PRIMARY KEY, s STRING, raw BINARY)")
        written = db.table("t").put({"id": 1, "s": "é" * 25_000_000, "raw": b"\1" * 50_000_000})
        assert written.operations == 1
        row = db.table("t").get(1)
        assert (len(row["s"]), len(row["raw"])) == (25_000_000, 50_000_000)


@pytest.mark.parametrize(
    "name", ["$(touch x).csv", "-rf.csv", "a b'c\".csv", "é😀.csv", "x\ny.csv", "%s{0}.csv", "..csv"]
)
def test_files_with_hostile_names_are_loaded(tmp_path: Path, name: str) -> None:
    with tr.open(tmp_path / "store", create=True, map_size=1 << 26) as db:
        db.sql("CREATE TABLE t (id INT PRIMARY KEY)")
        (tmp_path / name).write_text("id\n1\n")
        assert load(db.table("t"), [tmp_path / name]) == 1
