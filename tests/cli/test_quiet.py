"""Failures of Spark are errors with one clear message. Nothing else reaches stderr: no stack trace, no log of Java."""

from __future__ import annotations

import json
from pathlib import Path

from commands import command
from shopping import SPEND, Tailrace

# In one process, because Spark starts slowly: a query that Spark cannot analyse, one that fails on a row, one whose
# Python worker finds damaged bytes, an epoch whose task fails once, and a query and an epoch after the death of Java.
FAILING = """
import json, sys
import tailrace as tr
from tailrace.database.inside import inside

def fails(action):
    try:
        action()
    except tr.TailraceError as error:
        print(json.dumps([type(error).__name__, str(error)]), flush=True)
    else:
        print(json.dumps(["", ""]), flush=True)

with tr.open(sys.argv[1]) as db:
    fails(lambda: db.query("SELECT nope FROM orders"))
    db.table("orders").put({"id": 1, "cust": 7})
    fails(lambda: db.query("SELECT raise_error('this row') FROM orders"))
    fails(db.refresh)
    store = inside(db).store
    with store.environment.write() as txn, txn.cursor(store.environment.databases["rows"]) as cursor:
        cursor.first()
        cursor.put(cursor.key(), b"damaged")
    fails(lambda: db.query("SELECT * FROM orders"))
    fails(lambda: db.verify("spend"))
    java = db.spark.sparkContext._gateway.proc
    java.kill()
    java.wait()
    fails(lambda: db.query("SELECT 1"))
    db.table("orders").put({"id": 2, "cust": 7})
    fails(db.refresh)
"""


def test_failures_are_errors_and_nothing_else_is_printed(tmp_path: Path, shop: Tailrace) -> None:
    with command(tmp_path, "sql", shop.path, SPEND) as run:
        assert run.end() == 0, run.err
    faults = tmp_path / "faults"
    faults.mkdir()
    (faults / "task.apply").write_text("raise@1")
    with command(tmp_path, shop.path, code=FAILING, TAILRACE_FAULTS=str(faults)) as run:
        assert run.end() == 0, run.err
    assert run.err == ""
    analysis, row, task, damaged, verify, dead, epoch = map(json.loads, run.out.splitlines())
    assert analysis[0] == row[0] == damaged[0] == verify[0] == "SqlError"
    assert "nope" in analysis[1]
    assert "this row" in row[1]
    assert task == ["", ""], "the job was run again"
    assert "damaged" in damaged[1]
    assert dead == ["EnvironmentFault", "Spark has stopped. Start this process again"]
    assert epoch[0] == "EpochFailed"
    assert "Spark has stopped" in epoch[1]
    assert all(
        "\n" not in message and "Traceback" not in message for _, message in map(json.loads, run.out.splitlines())
    )
