"""The verbs `backup`, `dump` and `restore`, and that no verb but `init` and `restore` creates a store."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from pyspark.sql import SparkSession
from shopping import SPEND, Tailrace
from typer.testing import CliRunner, Result

from tailrace.cli.app import app


def run(*args: object) -> Result:
    return CliRunner().invoke(app, [str(a) for a in args])


@pytest.fixture
def filled(shop: Tailrace, spark: SparkSession) -> Tailrace:
    shop("sql", SPEND)
    shop("put", "orders", '{"id": 1, "cust": 7, "price": "9.50", "note": "é", "day": "2026-01-31"}')
    shop("put", "lines", '{"id": 1, "line": 2, "price": 0.1, "data": "00ff"}')
    shop("refresh")
    shop("put", "orders", '{"id": 2, "cust": 7, "price": "0.50"}')
    return shop


@pytest.mark.parametrize("verb", ["backup", "dump"])
def test_a_store_goes_there_and_back(filled: Tailrace, tmp_path: Path, verb: str) -> None:
    saved = filled.json(verb, tmp_path / "saved")
    assert (saved["path"], saved["position"]) == (str(tmp_path / "saved"), 3)
    result = run("restore", tmp_path / "saved", tmp_path / "again", "--json")
    assert result.exit_code == 0, result.output
    restored = json.loads(result.stdout)
    assert (restored["ok"], restored["kind"], restored["findings"]) == (True, verb, [])
    assert [(r["view"], r["ok"]) for r in restored["reports"]] == [("spend", True)]
    again = Tailrace(tmp_path / "again")
    again("refresh")
    filled("refresh")
    for name in ("orders", "lines", "spend"):
        assert again.rows(name) == filled.rows(name)
    assert again.json("get", "spend", 7)["total"] == "10.00"


def test_the_output_for_people(filled: Tailrace, tmp_path: Path) -> None:
    out = filled("backup", tmp_path / "saved").stdout
    assert out.startswith(
        f"backed up {filled.path} at epoch 1, with all writes up to position 3, to {tmp_path / 'saved'} (5"
    )
    result = run("restore", tmp_path / "saved", tmp_path / "again")
    assert result.stdout.splitlines() == [
        "spend: ok, 1 row",
        f"restored {tmp_path / 'again'} at epoch 1, with all writes up to position 3",
    ]
    quick = run("restore", tmp_path / "saved", tmp_path / "quick", "--no-verify")
    assert quick.stdout.splitlines() == result.stdout.replace("again", "quick").splitlines()[1:]
    assert filled("dump", tmp_path / "dump").stdout.startswith(f"dumped {filled.path}, with all writes")
    wide = run("restore", tmp_path / "dump", tmp_path / "wide", "--nodes", 3, "--shards", 9, "--no-verify")
    assert wide.exit_code == 0, wide.output
    assert json.loads((tmp_path / "wide" / "store.json").read_text())["shards"] == 9


def test_errors_of_backups(filled: Tailrace, tmp_path: Path) -> None:
    filled("backup", tmp_path / "saved")
    assert "already exists" in filled.error("backup", tmp_path / "saved")["message"]
    assert "already exists" in run("restore", tmp_path / "saved", filled.path).stderr
    assert "tailrace dump" in run("restore", tmp_path / "saved", tmp_path / "again", "--nodes", 3).stderr
    (tmp_path / "saved" / "shard-002.mdb").write_bytes(b"")
    damaged = run("restore", tmp_path / "saved", tmp_path / "again", "--json")
    error = json.loads(damaged.stderr)
    assert (damaged.exit_code, error["error"], error["file"]) == (1, "BadBackup", "shard-002.mdb")
    assert not (tmp_path / "again").exists()


@pytest.mark.parametrize(
    "args",
    [
        ["sql", "{}", "SHOW TABLES"],
        ["status", "{}"],
        ["explain", "{}", "v"],
        ["put", "{}", "t", "{{}}"],
        ["delete", "{}", "t", "1"],
        ["get", "{}", "t", "1"],
        ["scan", "{}", "t"],
        ["load", "{}", "t", "f.csv"],
        ["refresh", "{}"],
        ["run", "{}"],
        ["verify", "{}"],
        ["audit", "{}"],
        ["record", "{}", "h.arrow"],
        ["backup", "{}", "b"],
        ["dump", "{}", "d"],
    ],
    ids=lambda args: args[0],
)
def test_a_mistyped_path_creates_nothing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, args: list[str]) -> None:
    monkeypatch.chdir(tmp_path)
    result = run(*(arg.format(tmp_path / "shpo") for arg in args))
    assert result.exit_code == 1
    assert f"no store at {tmp_path / 'shpo'}" in result.stderr
    assert f"tailrace init {tmp_path / 'shpo'}" in result.stderr
    assert list(tmp_path.iterdir()) == []
