"""`tailrace sql`: the outcome of every statement, places of errors, and how fresh a query is."""

from __future__ import annotations

import json
import threading
from collections.abc import Callable
from pathlib import Path

import pytest
from pyspark.sql import SparkSession
from shopping import SPEND, Tailrace

import tailrace as tr
from tailrace.errors import EpochsLocked, SqlError

MakeFile = Callable[[str, str], Path]


def test_every_statement_says_what_it_did(shop: Tailrace, spark: SparkSession, file: MakeFile) -> None:
    script = file(
        "schema.sql",
        f"""CREATE TABLE IF NOT EXISTS orders (id INT PRIMARY KEY);
CREATE TABLE a (id INT PRIMARY KEY);
{SPEND};
CREATE MATERIALIZED VIEW ids AS SELECT id FROM orders;
CREATE MATERIALIZED VIEW IF NOT EXISTS ids AS SELECT id FROM orders;
CREATE OR REPLACE MATERIALIZED VIEW ids AS SELECT id, cust FROM orders;
SHOW VIEWS;
DROP VIEW ids; DROP VIEW IF EXISTS ids; DROP TABLE a""",
    )
    lines = shop("sql", "-f", script).stdout.splitlines()
    table = [line for line in lines if line[0] in "┏┃┡│└"]
    assert [line for line in lines if line not in table] == [
        "orders exists already",
        "created table a",
        "created view spend",
        "created view ids",
        "ids exists already",
        "replaced view ids",
        "dropped view ids",
        "no view named ids",
        "dropped table a",
    ]
    assert [line.strip("│ ") for line in table if line.startswith("│")] == ["ids", "spend"]


def test_json_has_one_document_for_each_statement(shop: Tailrace) -> None:
    out = shop("sql", "CREATE TABLE a (id INT PRIMARY KEY); DESCRIBE a; DROP TABLE a", "--json").stdout
    decoder, documents = json.JSONDecoder(), []
    while out.strip():
        document, end = decoder.raw_decode(out.strip())
        documents.append(document)
        out = out.strip()[end:]
    column = {"column": "id", "type": "int", "key": True}
    assert documents == [{"done": "created table a"}, [column], {"done": "dropped table a"}]


def test_the_text_may_come_from_stdin(shop: Tailrace) -> None:
    for arguments in ((), ("-f", "-")):
        assert "orders" in shop("sql", *arguments, stdin="SHOW TABLES").stdout


def test_an_error_names_the_file_the_place_and_what_was_done(
    shop: Tailrace, spark: SparkSession, file: MakeFile
) -> None:
    script = file("a.sql", "CREATE TABLE a (id INT PRIMARY KEY);\nSELECT 1;\n\n  SELECT nope\n  FROM orders;\nSELECT 2")
    first = shop("sql", "-f", script, "--json", code=1)
    error = json.loads(first.stderr)
    assert (error["error"], error["file"], error["line"], error["column"]) == ("SqlError", str(script), 4, 3)
    assert error["done"] == ["CREATE TABLE a (line 1)", "query (line 2)"]
    assert f"({script}, line 4, column 3). Done before: CREATE TABLE a (line 1), query (line 2)" in error["message"]
    assert "nope" in error["message"]
    assert "2" not in first.stdout


def test_nothing_is_done_if_a_statement_cannot_be_parsed(shop: Tailrace, file: MakeFile) -> None:
    script = file("a.sql", "CREATE TABLE a (id INT PRIMARY KEY);\nCREATE TABLE b (id INT)")
    error = shop.error("sql", "-f", script)
    assert (error["file"], error["line"]) == (str(script), 2)
    assert "done" not in error
    assert [row["name"] for row in shop.json("sql", "SHOW TABLES")] == ["lines", "orders"]


def test_a_query_syntax_error_has_its_place_in_the_whole_text(shop: Tailrace, spark: SparkSession) -> None:
    error = shop.error("sql", "SHOW TABLES;\n SELECT *\n FROM orders WHERE")
    assert error["line"] == 3


def test_tables_are_read_at_the_newest_cut_and_views_at_the_committed_one(shop: Tailrace, spark: SparkSession) -> None:
    shop("sql", SPEND)
    shop("put", "orders", '{"id": 1, "cust": 7, "price": "2"}')
    tables = shop("sql", "SELECT count(*) AS n FROM orders", "--json")
    assert (json.loads(tables.stdout), tables.stderr) == ([{"n": 1}], "")
    both = shop("sql", "SELECT count(*) AS n FROM orders LEFT JOIN spend USING (cust)", "--json")
    assert json.loads(both.stdout) == [{"n": 0}]
    assert json.loads(both.stderr)["lag_operations"] == 1
    said = shop("sql", "SELECT * FROM spend").stderr
    assert said.startswith("views at epoch 0, 1 operation (")
    assert said.endswith("s) behind the tables; --fresh brings them up to date first\n")
    assert said.count("\n") == 1


def test_fresh_refreshes_first(shop: Tailrace, spark: SparkSession) -> None:
    shop("sql", SPEND)
    shop("put", "orders", '{"id": 1, "cust": 7, "price": "2"}')
    fresh = shop("sql", "SELECT n FROM spend", "--fresh", "--json")
    assert json.loads(fresh.stdout) == [{"n": 1}]
    assert json.loads(fresh.stderr) == {"epoch": 1, "lag_operations": 0, "lag_seconds": 0.0, "failed": {}}
    assert shop("sql", "SELECT n FROM spend").stderr == "views at epoch 1, up to date\n"


def test_fresh_waits_for_the_process_that_runs_epochs(shop: Tailrace, spark: SparkSession) -> None:
    shop("sql", SPEND)
    with tr.open(shop.path) as runner, tr.open(shop.path) as db:
        thread = threading.Thread(target=runner.run, kwargs={"interval": 0.05})
        thread.start()
        try:
            while db.status().runner is None:
                assert thread.is_alive()
            for number in range(1, 4):
                db.table("orders").put({"id": number, "cust": 7, "price": 1})
                assert db.query("SELECT n FROM spend", fresh=True).to_pylist() == [{"n": number}]
            with pytest.raises(EpochsLocked):
                db.refresh()
        finally:
            runner.stop()
            thread.join()


def test_a_snapshot_reads_tables_at_its_own_cut(shop: Tailrace, spark: SparkSession) -> None:
    with tr.open(shop.path) as db, db.snapshot() as snapshot:
        db.table("orders").put({"id": 1})
        assert db.query("SELECT count(*) AS n FROM orders").to_pylist() == [{"n": 1}]
        assert snapshot.query("SELECT count(*) AS n FROM orders").to_pylist() == [{"n": 0}]


def test_statements_run_one_by_one_in_python(tmp_path: Path) -> None:
    with tr.open(tmp_path / "s", create=True) as db:
        outcomes = db.statements("CREATE TABLE a (id INT PRIMARY KEY);\n CREATE TABLE a (id INT PRIMARY KEY)")
        assert db.tables() == []
        first = next(outcomes)
        assert (first.statement, first.line, first.column, first.message) == (
            "CREATE TABLE a",
            1,
            1,
            "created table a",
        )
        with pytest.raises(SqlError) as error:
            next(outcomes)
        assert (error.value.line, error.value.column) == (2, 2)
        assert db.sql("SHOW TABLES; DROP TABLE a") is None


@pytest.mark.parametrize(
    ("content", "message"), [(None, "cannot be read: No such file"), (b"SELECT '\xff'", "not text in UTF-8 (byte 9)")]
)
def test_a_file_that_cannot_be_read(shop: Tailrace, tmp_path: Path, content: bytes | None, message: str) -> None:
    path = tmp_path / "script.sql"
    if content is not None:
        path.write_bytes(content)
    error = shop.error("sql", "-f", path)
    assert error["error"] == "DataError"
    assert error["message"].startswith(f"{path} ")
    assert message in error["message"]
