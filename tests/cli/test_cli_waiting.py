"""`--at-least`, and what `status` says about the process that runs epochs, throttled writers and pins."""

from __future__ import annotations

import os

from pyspark.sql import SparkSession
from shopping import SPEND, Tailrace

import tailrace as tr
from tailrace.store.lmdb.file_locks import held


def test_reads_wait_for_the_position_of_a_write(shop: Tailrace, spark: SparkSession) -> None:
    shop("sql", SPEND)
    position = shop.json("put", "orders", '{"id": 1, "cust": 7, "price": 3}')["transaction"]
    assert (
        shop("put", "orders", '{"id": 1, "cust": 7, "price": 5}').stdout == f"1 row written, position {position + 1}\n"
    )
    shop("get", "orders", 1, "--at-least", position)
    error = shop.error("get", "spend", 7, "--at-least", position, "--timeout", 0)
    assert (error["error"], error["wanted"], error["covered"]) == ("Timeout", position, 0)
    assert shop.error("scan", "spend", "--at-least", 99)["error"] == "BadPosition"
    shop("refresh")
    assert shop.json("get", "spend", 7, "--at-least", position + 1)["total"] == "5.00"
    assert len(shop.json("scan", "spend", "--at-least", position + 1, "--timeout", 0)) == 1


def test_status_shows_the_process_that_runs_epochs_and_throttled_writers(shop: Tailrace, spark: SparkSession) -> None:
    assert "no process runs epochs" in shop("status").stdout
    shop("run", "--until-caught-up", "--max-lag", 2)
    shop("put", "orders", '{"id": 1}', '{"id": 2}', '{"id": 3}')
    assert shop.json("status")["delay"] == 0
    with held(str(shop.path.resolve()), "runner"), tr.open(shop.path) as db, db.snapshot():
        output = shop("status").stdout
        assert f"run by process {os.getpid()} " in output
        assert "waits up to 0.50 s (max_lag is 2)" in output
        assert f"epoch 0 has been pinned by process {os.getpid()}" in output
        assert shop.json("status")["delay"] == 0.5
