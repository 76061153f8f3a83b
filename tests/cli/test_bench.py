"""`tailrace bench`: by name, as JSON; what it says of a benchmark that fails, and when it cannot run any."""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner

import tailrace as tr
from tailrace.cli.app import app
from tailrace_bench import harness, run
from tailrace_bench.results import Result
from tailrace_bench.size import Size

TINY = Size(
    name="tiny",
    repeats=1,
    operations=2_000,
    usual=2_000,
    rows=1_000,
    updates=1_000,
    tables=(500, 1_000),
    deltas=(100, 200),
    keys=1_000,
    groups=(10_000,),
    ratios=((1_000, 100),),
    join_keys=(100,),
    exponents=(1.0,),
    joined=200,
    queries=4,
    counts=(10,),
    rates=(500,),
    seconds=1,
    patience=5,
    scale=0.01,
)


@pytest.fixture
def tiny(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Size, "QUICK", TINY)


def test_results_go_to_a_file(tmp_path: Path, spark: Any, tiny: None) -> None:
    file = tmp_path / "figures.json"
    said = CliRunner().invoke(app, ["bench", "sums", "selections", "--quick", "--json", str(file)])
    assert (said.exit_code, said.stdout) == (0, ""), said.stderr
    found = json.loads(file.read_text())
    assert found["machine"]["pyspark"]
    assert (found["size"], found["failed"]) == ("tiny", {})
    sums, selections = (Result.of(result) for result in found["results"])
    assert [(line.name, line.whose) for line in sums.lines] == [
        ("Tailrace", "tailrace"),
        ("log scan in Spark", "limit"),
    ]
    assert [point.x for point in sums.lines[0].points] == [10_000]
    assert sums.targets[0].wanted == 0.6
    assert selections.lines[0].points[0].y.median > 0
    assert "sums: " in said.stderr


def test_a_benchmark_that_fails_is_reported_and_the_others_go_on(
    spark: Any, tiny: None, monkeypatch: pytest.MonkeyPatch
) -> None:
    def broken(_: Size) -> Result:
        raise ValueError("no luck")

    monkeypatch.setitem(run.BENCHMARKS, "join", broken)
    said = CliRunner().invoke(app, ["bench", "join", "limits", "--quick"])
    assert said.exit_code == 1
    found = json.loads(said.stdout)
    assert found["failed"] == {"join": "ValueError: no luck"}
    assert [result["name"] for result in found["results"]] == ["limits"]


def test_figures_of_a_wrong_view_do_not_count(tmp_path: Path, spark: Any) -> None:
    with tr.open(tmp_path / "store") as db:
        db.sql("CREATE TABLE t (id BIGINT PRIMARY KEY, amount BIGINT)")
        harness.create(db, "v", "SELECT id, amount FROM t")
        db.table("t").put({"id": 1, "amount": 2})
        db.refresh()
        harness.check(db)
        _lose_everything(db)
        with pytest.raises(harness.Wrong, match="view v is wrong, so its figures do not count"):
            harness.check(db)


def _lose_everything(db: tr.Database) -> None:
    """Take the view's rows away behind the store's back."""
    for shard in range(db._store.shards):
        env = db._store.shard(shard).environment  # type: ignore[attr-defined]
        with env.write() as txn:
            txn.drop(env.databases["data"], delete=False)


def test_an_unknown_benchmark_is_wrong_use() -> None:
    result = CliRunner().invoke(app, ["bench", "nosuch"], env={"COLUMNS": "200"})
    assert result.exit_code == 2
    assert "no benchmark named 'nosuch'; there are limits, sums, extremes" in result.stderr


def test_benchmarks_that_are_not_installed(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "tailrace_bench.run", None)
    result = CliRunner().invoke(app, ["bench"])
    assert result.exit_code == 1
    assert result.stderr.startswith(
        "error: cannot run benchmarks: tailrace_bench.run is not installed. Run benchmarks from"
    )
