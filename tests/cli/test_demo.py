"""A small demo run, and how the demo computes its figures."""

from __future__ import annotations

import os
from pathlib import Path

import pytest
from pyspark.sql import SparkSession
from typer.testing import CliRunner

import tailrace as tr
from tailrace.cli.app import app
from tailrace.demo.stream import Applied, Measured, percentile
from tailrace.demo.views import EXAMPLES
from tailrace.demo.writer import WriteNote


def test_a_small_demo_verifies_every_view(spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("JDK_JAVA_OPTIONS", os.environ.get("JDK_JAVA_OPTIONS", ""))
    place = tmp_path / "demo"
    command = ["demo", "--scale", "0.001", "--seconds", "2", "--rate", "400", "--dir", str(place)]
    result = CliRunner().invoke(app, command)
    assert result.exit_code == 0, result.output
    assert f"{len(EXAMPLES)} of {len(EXAMPLES)}" in result.stdout
    assert result.stderr == ""
    with tr.open(place / "store") as db:
        assert len(db.views()) == len(EXAMPLES)
        assert db.status().lag_operations == 0
    again = CliRunner().invoke(app, command)
    assert (again.exit_code, "already exists" in again.stderr) == (1, True)


def test_percentile_of_none_one_and_many_values() -> None:
    assert percentile([], 0.5) == 0.0
    assert percentile([3.0], 0.99) == 3.0
    assert percentile([float(i) for i in range(100)], 0.99) == 99.0


def test_freshness_is_the_time_to_the_epoch_that_covers_a_write() -> None:
    def epoch(number: int, transaction: int, at: float) -> Applied:
        return Applied(tr.Epoch(number, 1, 0.1, 1, tr.Cut(transaction, (1,)), 1), at, 0, 0.0)

    writes = [WriteNote(1, 1, 10.0), WriteNote(2, 1, 10.5), WriteNote(3, 1, 11.0), WriteNote(9, 1, 12.0)]
    measured = Measured([epoch(1, 2, 11.0), epoch(2, 4, 13.0)], writes, [], 3.0)
    assert measured.freshness == [1.0, 0.5, 2.0]
    assert measured.operations == 2
