"""A whole session from init to verify, and commands that run as processes of their own."""

from __future__ import annotations

import json
import signal
import subprocess
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from pyspark.sql import SparkSession
from shopping import SPEND, Tailrace

from tailrace.catalog.definition import VIEWS


def test_a_session(shop: Tailrace, spark: SparkSession, file: Callable[[str, str], Path], tmp_path: Path) -> None:
    shop("put", "orders", '{"id": 1, "cust": 7, "price": "9.50"}')
    shop("sql", SPEND)
    shop("load", "orders", file("a.csv", "id,cust,price\n2,7,0.5\n3,8,1\n"))
    shop("load", "orders", file("b.jsonl", '{"id": 4, "cust": 8, "price": 2.25}\n'))
    pq.write_table(pa.table({"id": [5], "cust": [9]}), tmp_path / "c.parquet")
    assert shop.json("load", "orders", tmp_path / "c.parquet")["rows"] == 1
    assert shop.json("status")["lag_operations"] == 4

    epoch = shop.json("refresh")
    assert (epoch["operations"], epoch["views"]) == (4, 1)
    assert "already up to date" in shop("refresh").stdout
    assert shop.json("get", "spend", 7) == {"cust": 7, "total": "10.00", "n": 2}
    assert shop.json("get", "spend", 404, code=1) is None
    assert shop.json("scan", "spend", "--start", 8) == [
        {"cust": 8, "total": "3.25", "n": 2},
        {"cust": 9, "total": None, "n": 1},
    ]
    assert shop.json("sql", "SELECT count(*) AS n FROM orders JOIN spend USING (cust)") == [{"n": 5}]
    assert "3.25" in shop("sql", "SELECT total FROM spend WHERE cust = 8").stdout
    assert "orders" in shop("explain", "spend").stdout
    assert shop.json("explain", "spend")
    assert [v["name"] for v in shop.json("status")["views"]] == ["spend"]
    assert "up to date" in shop("status").stdout
    assert [(r["view"], r["ok"], r["rows"]) for r in shop.json("verify")] == [("spend", True, 3)]
    assert "ok" in shop("verify", "spend").stdout
    assert shop.error("sql", "DROP TABLE orders")["error"] == "InUse"
    shop("sql", "DROP VIEW spend; DROP TABLE orders")
    assert shop.json("sql", "SHOW TABLES") == [{"name": "lines"}]


def test_sql_from_a_file_and_from_stdin(shop: Tailrace, file: Callable[[str, str], Path]) -> None:
    shop(
        "sql",
        "-f",
        file("a.sql", "CREATE TABLE a (id INT PRIMARY KEY);\nCREATE TABLE b (id INT PRIMARY KEY)"),
    )
    assert json.loads(shop("sql", "--json", stdin="SHOW TABLES").stdout)[:2] == [{"name": "a"}, {"name": "b"}]
    assert shop.json("sql", "DROP TABLE a") == {"done": "dropped table a"}
    shop("sql", "SHOW TABLES", "-f", file("b.sql", ""), code=2)


def test_run_until_caught_up_prints_json_lines(shop: Tailrace, spark: SparkSession) -> None:
    shop("sql", SPEND)
    shop("put", "orders", '{"id": 1, "cust": 7, "price": "9.50"}')
    start, epoch, stop = map(json.loads, shop("run", "--until-caught-up", "--json").stdout.splitlines())
    assert [start["event"], epoch["event"], stop["event"]] == ["start", "epoch", "stop"]
    assert epoch.items() >= {"operations": 1, "lag_operations": 0}.items()
    shop("put", "orders", '{"id": 1, "cust": 8, "price": "9.50"}')
    assert "1 operation in" in shop("run", "--until-caught-up").stdout
    assert shop.json("get", "spend", 7, code=1) is None


def test_get_and_scan_of_a_view_with_one_row_and_of_one_without_a_key(shop: Tailrace, spark: SparkSession) -> None:
    shop("put", "orders", '{"id": 1, "cust": 7}', '{"id": 2, "cust": 7}')
    shop("sql", "CREATE MATERIALIZED VIEW total AS SELECT COUNT(*) AS n FROM orders")
    shop("sql", "CREATE MATERIALIZED VIEW customers AS SELECT cust FROM orders")
    assert shop.json("get", "total") == {"n": 2}
    assert shop.json("scan", "customers") == [{"cust": 7}, {"cust": 7}]
    assert shop.error("get", "customers", 7)["error"] == "BadKey"


def test_verify_of_a_view_that_differs_exits_with_1(shop: Tailrace, spark: SparkSession) -> None:
    shop("put", "orders", '{"id": 1, "cust": 7, "price": "9.50"}')
    shop("sql", SPEND)
    delete_view_rows(shop.path)
    [report] = shop.json("verify", code=1)
    assert (report["ok"], report["missing"]) == (False, 1)
    assert "DIFFERS" in shop("verify", code=1).stdout


def delete_view_rows(path: Path) -> None:
    """Delete all rows of the view `spend`, behind the store's back."""
    from tailrace.store.lmdb.store import LmdbStore

    store = LmdbStore(path)
    state = store.documents(VIEWS)["spend"].state
    for shard in range(store.shards):
        store.shard(shard).drop(state)
    store.close()


# Commands as processes of their own


@contextmanager
def tailrace(*args: object) -> Iterator[subprocess.Popen[str]]:
    command = [sys.executable, "-m", "tailrace", *map(str, args)]
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) as process:
        try:
            yield process
        finally:
            process.kill()


def test_an_error_of_a_process_is_one_line(tmp_path: Path) -> None:
    with tailrace("get", tmp_path / "no", "orders", 1) as process:
        out, err = process.communicate(timeout=60)
    assert (process.returncode, out) == (1, "")
    assert err.startswith(f"error: no store at {tmp_path / 'no'}. ")
    assert err.count("\n") == 1


@pytest.mark.parametrize(("number", "code"), [(signal.SIGINT, 130), (signal.SIGTERM, 0)])
def test_run_ends_cleanly_on_a_signal(shop: Tailrace, spark: SparkSession, number: signal.Signals, code: int) -> None:
    shop("sql", SPEND)
    shop("put", "orders", '{"id": 1, "cust": 7, "price": "9.50"}')
    with tailrace("run", shop.path, "--json", "--interval", 0.05) as process:
        assert process.stdout is not None
        first, _, epoch = (json.loads(process.stdout.readline()) for _ in range(3))
        assert (first["event"], first["pid"], epoch["operations"]) == ("start", process.pid, 1)
        assert shop.error("refresh")["pid"] == process.pid
        process.send_signal(number)
        out, err = process.communicate(timeout=60)
    assert (process.returncode, json.loads(out)["reason"], err) == (code, number.name, "")
    assert shop.json("get", "spend", 7)["total"] == "9.50"


SCRIPT = """
import json, sys
from pyspark import SparkContext
from typer.testing import CliRunner
from tailrace.cli.app import app
for args in json.loads(sys.argv[1]):
    assert CliRunner().invoke(app, args).exit_code == 0, args
sys.exit(SparkContext._gateway is not None)
"""


def test_reading_and_writing_start_no_java(shop: Tailrace, file: Callable[[str, str], Path]) -> None:
    store = str(shop.path)
    commands = [
        ["put", store, "orders", '{"id": 1}'],
        ["load", store, "orders", str(file("a.csv", "id\n2\n"))],
        ["get", store, "orders", "1"],
        ["scan", store, "orders"],
        ["status", store],
    ]
    command = [sys.executable, "-c", SCRIPT, json.dumps(commands)]
    done = subprocess.run(command, capture_output=True, text=True, timeout=60)
    assert done.returncode == 0, done.stderr
