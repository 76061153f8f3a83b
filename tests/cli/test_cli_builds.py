"""Refresh policies, interrupted builds and CREATE OR REPLACE on the command line."""

from __future__ import annotations

import json
import signal
import subprocess
import sys

from pyspark.sql import SparkSession
from shopping import SPEND, Tailrace

import tailrace as tr

BESIDE = "SELECT a.id, s.m FROM orders a LEFT JOIN LATERAL explode(array(a.id, a.cust)) AS s(m) ON s.m > 3"


def test_status_shows_how_views_were_refreshed(shop: Tailrace, spark: SparkSession) -> None:
    shop("sql", f"CREATE MATERIALIZED VIEW beside WITH (refresh = 'auto') AS {BESIDE}")
    shop("put", "orders", '{"id": 1, "cust": 7}')
    epoch = shop.json("refresh")
    assert epoch["refreshed"]["beside"]["taken"] == "recomputed"
    shop("put", "orders", '{"id": 2, "cust": 7}')
    assert "recomputed beside" in shop("refresh").stdout
    [view] = shop.json("status")["views"]
    assert (view["refresh"], view["refreshed"]["epoch"]) == ("auto", epoch["number"] + 1)
    assert "beside: recomputed in epoch" in shop("status").stdout
    assert "LEFT JOIN LATERAL with a condition" in shop("explain", "beside").stdout
    assert shop.json("status")["epochs"][0]["operations"] == 1


BUILD = """
import sys
from tailrace.catalog import construction
construction.CHUNK = 200
sys.argv = ["tailrace", "sql", sys.argv[1], sys.argv[2]]
from tailrace.cli.main import main
main()
"""


def test_a_build_interrupted_by_sigint_is_shown_and_continued(shop: Tailrace, spark: SparkSession) -> None:
    with tr.open(shop.path) as db:
        db.table("orders").put_many([{"id": i, "cust": i % 9, "price": i} for i in range(20_000)])
    command = [sys.executable, "-c", BUILD, str(shop.path), SPEND]
    with subprocess.Popen(command, stderr=subprocess.PIPE, text=True) as process:
        assert process.stderr is not None
        line = process.stderr.readline()
        assert line.startswith("building spend: ")
        assert line.endswith("of 20,000 rows\n")
        process.send_signal(signal.SIGINT)
        errors = process.stderr.read()
        assert process.wait(timeout=60) == 130, errors
    assert "spend: being built" in errors
    [building] = shop.json("status")["building"]
    assert (building["name"], building["total"], building["pid"]) == ("spend", 20_000, None)
    assert "being built" in shop("status").stdout
    assert shop.json("sql", "SHOW VIEWS") == []
    shop("run", "--until-caught-up")
    assert shop.json("status")["building"] == []
    assert shop.json("get", "spend", 3)["n"] == len(range(3, 20_000, 9))
    assert [(r["view"], r["ok"]) for r in shop.json("verify")] == [("spend", True)]


def test_replacing_a_view(shop: Tailrace, spark: SparkSession) -> None:
    shop("put", "orders", '{"id": 1, "cust": 7, "price": "2.50"}')
    shop("sql", SPEND)
    shop(
        "sql", "CREATE OR REPLACE MATERIALIZED VIEW spend AS SELECT cust, MAX(price) AS most FROM orders GROUP BY cust"
    )
    assert shop.json("get", "spend", 7) == {"cust": 7, "most": "2.50"}
    error = shop.error("sql", "CREATE OR REPLACE MATERIALIZED VIEW spend AS SELECT nope FROM orders")
    assert error["error"] == "UnknownName"
    assert json.loads(shop("get", "spend", 7, "--json").stdout)["most"] == "2.50"
