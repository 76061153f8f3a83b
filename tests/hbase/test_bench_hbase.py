"""`tailrace bench hbase`: its experiments run, and their figures are those of verified views."""

from __future__ import annotations

import json
import os
from dataclasses import replace
from pathlib import Path

import pytest
from pyspark.sql import SparkSession
from typer.testing import CliRunner

from tailrace.cli.app import app
from tailrace_bench import run
from tailrace_bench.hbase.bench_store import start_cluster
from tailrace_bench.results import Result
from tailrace_bench.size import Size
from tailrace_hbase.local_cluster import LocalCluster

pytestmark = pytest.mark.hbase
TINY = replace(Size.QUICK, name="tiny", repeats=1, keys=200, hbase_epoch=300, hbase_seconds=1)


@pytest.mark.parametrize("experiments", ["hbase_reads", pytest.param("hbase", marks=pytest.mark.soak)])
def test_experiments_on_hbase(
    tmp_path: Path, cluster: LocalCluster, spark: SparkSession, monkeypatch: pytest.MonkeyPatch, experiments: str
) -> None:
    monkeypatch.setattr(Size, "QUICK", TINY)
    monkeypatch.setitem(os.environ, "TAILRACE_HBASE", str(cluster.directory))
    start_cluster.cache_clear()
    file = tmp_path / "figures.json"
    command = CliRunner().invoke(app, ["bench", experiments, "--quick", "--json", str(file), "--docs", str(tmp_path)])
    assert command.exit_code == 0, command.stderr
    document = json.loads(file.read_text())
    assert document["failed"] == {}
    results = {result["name"]: Result.from_json(result) for result in document["results"]}
    assert list(results) == run.GROUPS.get(experiments, [experiments])
    for result in results.values():
        assert all(point.y.least > 0 for line in result.lines for point in line.points), result
        assert result.targets
        assert {"tailrace", "limit"} <= {line.whose for line in result.lines} or result.name == "hbase_freshness"
    page = (tmp_path / "benchmarks.md").read_text()
    assert all(f'<a id="{name}">' in page for name in results)
    assert experiments != "hbase" or "902" in page
