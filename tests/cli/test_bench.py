"""`tailrace bench`: by name, at a scale, as JSON; and what it says when it cannot."""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner

from tailrace.cli import app


def test_figures_of_many_views_go_to_a_file(tmp_path: Path, spark: Any) -> None:
    file = tmp_path / "figures.json"
    result = CliRunner().invoke(app, ["bench", "views", "--scale", "0.005", "--json", str(file)])
    assert (result.exit_code, result.stdout) == (0, "")
    figures = json.loads(file.read_text())
    assert figures["machine"]["pyspark"]
    assert figures["views"]["mixed"]["views"] == 5
    assert figures["views"]["mixed"]["verified"] == 5
    assert figures["views"]["selections"]["views"] == 2
    assert figures["views"]["wrong"] == {}


def test_an_unknown_benchmark_is_wrong_use() -> None:
    result = CliRunner().invoke(app, ["bench", "nosuch"], env={"COLUMNS": "200"})
    assert result.exit_code == 2
    assert "no benchmark named 'nosuch'; there are sums, filters, flat, small, tpch, views" in result.stderr


def test_benchmarks_that_are_not_installed(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "tailrace_bench.run", None)
    result = CliRunner().invoke(app, ["bench"])
    assert result.exit_code == 1
    assert result.stderr.startswith("error: no benchmarks here: tailrace_bench.run is not installed; run them from")
