"""`tailrace bench`: runs by name, JSON output, failing benchmarks, and the error without the benchmarks."""

from __future__ import annotations

import json
import sys
import tomllib
from pathlib import Path
from typing import Any

import pytest
from setuptools import find_packages
from typer.testing import CliRunner

import tailrace as tr
from tailrace.cli.app import app
from tailrace.database.inside import inside
from tailrace_bench import harness, run
from tailrace_bench.results import Result
from tailrace_bench.size import Size

ROOT = Path(__file__).parents[2]
TINY = Size(
    name="tiny",
    repeats=1,
    large_epoch=2_000,
    medium_epoch=2_000,
    lmdb_rows=1_000,
    view_rows=1_000,
    table_sizes=(500, 1_000),
    delta_sizes=(100, 200),
    keys=1_000,
    group_counts=(10_000,),
    keys_and_groups=((1_000, 100),),
    join_keys=(100,),
    zipf_exponents=(1.0,),
    join_operations=200,
    selections=4,
    view_table_counts=(10,),
    write_rates=(500,),
    write_seconds=1,
    creation_limit=5,
    tpch_scale=0.01,
    disk_rows=1_000,
    hbase_epoch=500,
    hbase_seconds=0.5,
)


@pytest.fixture
def tiny(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Size, "QUICK", TINY)


def test_results_go_to_a_file(tmp_path: Path, spark: Any, tiny: None) -> None:
    file = tmp_path / "figures.json"
    command = CliRunner().invoke(app, ["bench", "sums", "selections", "--quick", "--json", str(file)])
    assert (command.exit_code, command.stdout) == (0, ""), command.stderr
    document = json.loads(file.read_text())
    assert document["machine"]["pyspark"]
    assert (document["size"], document["failed"]) == ("tiny", {})
    sums, selections = (Result.from_json(result) for result in document["results"])
    assert [(line.name, line.whose) for line in sums.lines] == [
        ("Tailrace", "tailrace"),
        ("log scan in Spark", "limit"),
    ]
    assert [point.x for point in sums.lines[0].points] == [10_000]
    assert sums.targets[0].wanted == 0.6
    assert selections.lines[0].points[0].y.median > 0
    assert "sums: " in command.stderr


def test_a_failing_benchmark_is_reported_and_the_others_continue(
    spark: Any, tiny: None, monkeypatch: pytest.MonkeyPatch
) -> None:
    def broken(_: Size) -> Result:
        raise ValueError("no luck")

    monkeypatch.setitem(run.BENCHMARKS, "join", broken)
    command = CliRunner().invoke(app, ["bench", "join", "limits", "--quick"])
    assert command.exit_code == 1
    document = json.loads(command.stdout)
    assert document["failed"] == {"join": "ValueError: no luck"}
    assert [result["name"] for result in document["results"]] == ["limits"]


def test_figures_of_a_wrong_view_do_not_count(tmp_path: Path, spark: Any) -> None:
    with tr.open(tmp_path / "store", create=True) as db:
        db.sql("CREATE TABLE t (id BIGINT PRIMARY KEY, amount BIGINT)")
        harness.create_view(db, "v", "SELECT id, amount FROM t")
        db.table("t").put({"id": 1, "amount": 2})
        db.refresh()
        harness.verify_views(db)
        _delete_view_rows(db)
        with pytest.raises(harness.WrongView, match="view v is wrong, so its figures do not count"):
            harness.verify_views(db)


def _delete_view_rows(db: tr.Database) -> None:
    """Deletes the view's rows without the store's knowledge."""
    for shard in range(inside(db).store.shards):
        env = inside(db).store.shard(shard).environment  # type: ignore[attr-defined]
        with env.write() as txn:
            txn.drop(env.databases["data"], delete=False)


def test_an_unknown_benchmark_is_wrong_use() -> None:
    result = CliRunner().invoke(app, ["bench", "nosuch"], env={"COLUMNS": "200"})
    assert result.exit_code == 2
    assert "no benchmark named 'nosuch'; there are limits, sums, extremes" in result.stderr


def test_without_the_repository_one_error_says_where_the_benchmarks_are(monkeypatch: pytest.MonkeyPatch) -> None:
    for module in [name for name in sys.modules if name.startswith("tailrace_bench")]:
        monkeypatch.delitem(sys.modules, module)
    monkeypatch.setitem(sys.modules, "tailrace_bench", None)
    result = CliRunner().invoke(app, ["bench"])
    assert (result.exit_code, result.stdout) == (1, "")
    assert result.stderr.startswith("error: the benchmarks are not part of the installed package;")
    assert "Clone it and run `make bench`" in " ".join(result.stderr.split())
    assert "Traceback" not in result.stderr


def test_a_missing_dependency_of_the_benchmarks_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delitem(sys.modules, "tailrace_bench.run")
    monkeypatch.delitem(sys.modules, "tailrace_bench.machine", raising=False)
    monkeypatch.setitem(sys.modules, "psutil", None)
    result = CliRunner().invoke(app, ["bench"])
    assert result.exit_code == 1
    assert result.stderr.startswith("error: the benchmarks need psutil, which is not installed; run `make setup`")


def test_the_wheel_holds_tailrace_only() -> None:
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())
    packages = find_packages(str(ROOT), include=project["tool"]["setuptools"]["packages"]["find"]["include"])
    assert {name.partition(".")[0] for name in packages} == {"tailrace"}
    assert "tailrace.cli" in packages
