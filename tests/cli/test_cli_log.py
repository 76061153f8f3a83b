"""The log of events: what `run` says, JSON with fixed fields, and handlers of a program that uses the library."""

from __future__ import annotations

import json
import logging
import re
from datetime import datetime
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import SparkSession
from shopping import SPEND, Tailrace
from typer.testing import CliRunner

import tailrace as tr
from tailrace import events
from tailrace.catalog import construction
from tailrace.cli.app import app
from tailrace.store.administration import AdministrativeEvent, Stalled

COMMON = ["time", "level", "event", "store", "pid", "message"]
DOCS = Path(__file__).parents[2] / "docs" / "operations.md"


def documented_fields() -> dict[str, set[str]]:
    """The fields of each event, from the table in the docs."""
    rows = re.findall(r"^\| `(\w+)` \| (?:info|warning|error) \| [^|]* \| ([^|]*) \|$", DOCS.read_text(), re.MULTILINE)
    return {event: set(re.findall(r"`(\w+)`", fields)) for event, fields in rows}


def require_documented(event: dict[str, Any]) -> None:
    assert list(event)[: len(COMMON)] == COMMON
    assert set(event) - set(COMMON) == documented_fields()[event["event"]], event


def test_run_says_what_it_watches_and_every_line_has_the_time(shop: Tailrace, spark: SparkSession) -> None:
    shop("sql", SPEND)
    shop("put", "orders", '{"id": 1, "cust": 7, "price": "9.50"}')
    first, epoch, last = shop("run", "--until-caught-up", "--interval", 0.5).stdout.splitlines()
    for line in (first, epoch, last):
        datetime.strptime(line[:19], "%Y-%m-%d %H:%M:%S")
    watched = r"watching .*/shop: 2 tables \(lines, orders\), 1 view \(spend\), every 0\.5 s, process \d+"
    assert re.fullmatch(watched, first[20:])
    assert re.fullmatch(r"epoch 1: 1 operation in .* s \(\d+/s\), 1 view row, views are up to date", epoch[20:])
    assert last[20:] == "stopped at epoch 1: done"


def test_json_events_have_the_documented_fields(
    shop: Tailrace, spark: SparkSession, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(construction, "CHUNK", 100)
    monkeypatch.setattr(construction, "AT_ONCE", 10)
    with tr.open(shop.path) as db:
        db.table("orders").put_many([{"id": i, "cust": i % 9, "price": i} for i in range(250)])
    built = CliRunner().invoke(app, ["sql", str(shop.path), SPEND], env={"TAILRACE_LOG": "json"})
    seen = [json.loads(line) for line in built.stderr.splitlines() if line.startswith("{")]
    assert {"build", "epoch", "published"} <= {event["event"] for event in seen}
    shop("put", "orders", '{"id": 1, "cust": 7, "price": "9.50"}')
    ran = shop("run", "--until-caught-up", "--log-format", "json")
    seen += map(json.loads, ran.stdout.splitlines())
    failed = CliRunner().invoke(app, ["verify", str(shop.path), "nope", "--log-format", "json"])
    assert failed.exit_code == 1
    (error,) = [json.loads(line) for line in failed.stderr.splitlines()]
    assert (error["event"], error["level"], error["error"]) == ("error", "error", "UnknownName")
    for event in [*seen, error]:
        require_documented(event)
    times = [datetime.fromisoformat(event["time"]) for event in seen]
    assert times == sorted(times)
    assert {event["event"] for event in seen} >= {"start", "epoch", "build", "published", "stop"}


STRICT = "CREATE MATERIALIZED VIEW strict AS SELECT id, IF(cust < 0, raise_error('no'), cust) AS cust FROM orders"


def test_a_failed_view_is_an_event_and_in_the_status(shop: Tailrace, spark: SparkSession) -> None:
    shop("sql", f"{SPEND}; {STRICT}")
    shop("put", "orders", '{"id": 1, "cust": -7}')
    for _ in range(2):  # when it fails, and when a process starts with a failed view
        ran = shop("run", "--until-caught-up", "--json", code=1)
        (failed,) = map(json.loads, ran.stderr.splitlines())
        require_documented(failed)
        assert (failed["event"], failed["view"]) == ("view_failed", "strict")
    status = shop("status", code=1).stdout
    assert "strict: failed at epoch 1, shows epoch 0, 1 operation behind: " in status
    cells = [[cell.strip() for cell in line.split("│")] for line in status.splitlines() if line.startswith("│")]
    assert {row[1]: row[-2] for row in cells[2:]} == {"spend": "ok", "strict": "failed"}
    assert "strict has failed and shows epoch 0: " in shop("sql", "SELECT * FROM strict").stderr
    shop("put", "orders", '{"id": 1, "cust": 7}')
    assert "strict recovered" in shop("refresh").stdout


def test_every_event_is_documented(caplog: pytest.LogCaptureFixture) -> None:
    with caplog.at_level(logging.INFO, "tailrace"):
        events.view_failed("/s", "v", "why")
        events.spark_started("4", "local", "2g", 1.0)
        events.administrative("/s", AdministrativeEvent(1, 0.0, "moved", "t", ("r",), server="a", source="b"))
        events.stalled("/s", Stalled("t", "r", "a", 0.0))
    for record in caplog.records:
        fields: dict[str, Any] = record.fields  # type: ignore[attr-defined]
        assert set(fields) == documented_fields()[record.event]  # type: ignore[attr-defined]
    assert set(documented_fields()) == {
        "start",
        "spark",
        "epoch",
        "build",
        "published",
        "view_failed",
        "administrative",
        "stalled",
        "error",
        "stop",
    }


def test_a_program_can_attach_handlers(
    tmp_path: Path, spark: SparkSession, caplog: pytest.LogCaptureFixture, capsys: pytest.CaptureFixture[str]
) -> None:
    with tr.open(tmp_path / "s", create=True, spark=spark) as db:
        db.sql("CREATE TABLE a (id INT PRIMARY KEY); CREATE MATERIALIZED VIEW v AS SELECT id FROM a")
        db.table("a").put({"id": 1})
        db.refresh()
        with caplog.at_level(logging.INFO, "tailrace"):
            db.table("a").put({"id": 2})
            db.refresh()
    (record,) = caplog.records
    assert (record.event, record.store) == ("epoch", db.path)  # type: ignore[attr-defined]
    assert record.fields["operations"] == 1  # type: ignore[attr-defined]
    assert capsys.readouterr() == ("", "")


@pytest.mark.parametrize(("option", "env"), [(["--log-format", "xml"], {}), ([], {"TAILRACE_LOG": "xml"})])
def test_an_unknown_format_is_refused(shop: Tailrace, option: list[str], env: dict[str, str]) -> None:
    result = CliRunner().invoke(app, ["run", str(shop.path), *option], env={"COLUMNS": "200", **env})
    assert result.exit_code == 2
    assert "'xml' is not valid; write text or json" in result.stderr
