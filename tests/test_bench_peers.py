"""Peers get the same operations as Tailrace, and figures with a wrong answer do not count."""

from __future__ import annotations

import json
import sys
from pathlib import Path

import pyarrow as pa
import pytest
from pyspark.sql import SparkSession

from tailrace_bench.peers import figures, ours
from tailrace_bench.peers.compare import _lines, _ratios, _targets
from tailrace_bench.peers.figures import DUCKDB, SPARK, Figure, Peer, run
from tailrace_bench.peers.operations import Operations, final_rows, generate
from tailrace_bench.peers.programs.shared import COLUMNS, VIEWS, Task, answer, answer_of
from tailrace_bench.peers.tasks import expected_answer, write_task
from tailrace_bench.results import Whose

VIEW_NAMES = tuple(VIEWS)
COUNT = 20_000


@pytest.fixture(scope="module")
def operations() -> Operations:
    return generate(COUNT, keys=15_000, rows=500)


@pytest.fixture
def task(operations: Operations, tmp_path: Path) -> Task:
    views = [(name, COUNT, [10_000]) for name in VIEW_NAMES]
    return write_task(tmp_path, operations, views, repeats=1, thorough=False)


def test_operations_and_changes_lead_to_the_same_rows(operations: Operations) -> None:
    kinds = operations.changes["kind"].to_pylist()
    weights = [1 if kind in ("INSERT", "UPDATE_AFTER") else -1 for kind in kinds]
    start = answer_of(operations.table)
    moved = answer_of(operations.changes.drop_columns(["kind"]), pa.array(weights).to_numpy())
    assert [a + b for a, b in zip(start, moved, strict=True)] == answer_of(final_rows(operations, COUNT))
    assert set(kinds) == {"INSERT", "UPDATE_BEFORE", "UPDATE_AFTER", "DELETE"}
    assert operations.changes_after[-1] == len(kinds)


def test_operations_have_a_fixed_seed(operations: Operations) -> None:
    again = generate(COUNT, keys=15_000, rows=500)
    assert again == operations
    assert len(operations.ops) == COUNT


def test_the_oracle_is_what_spark_computes(spark: SparkSession, operations: Operations, task: Task) -> None:
    for name, rows in (("ops", final_rows(operations, COUNT)), ("side", operations.side)):
        spark.createDataFrame(rows.to_pandas()).createOrReplaceTempView(name)
    for view in task.views:
        rows = spark.sql(view.sql).toPandas()
        assert tuple(rows.columns) == COLUMNS[view.name]
        assert answer([rows[name].to_numpy() for name in rows]) == expected_answer(operations, view)


def test_an_answer_tells_rows_apart() -> None:
    rows = pa.table({"grp": [1, 2], "total": [10, 20], "n": [1, 1]})
    exchanged = pa.table({"grp": [1, 2], "total": [20, 10], "n": [1, 1]})
    assert answer_of(rows) == answer_of(rows.take([1, 0]))
    assert answer_of(rows) != answer_of(exchanged)
    assert answer_of(rows) != answer_of(rows.slice(1))


@pytest.mark.parametrize("peer", [peer for peer in (SPARK, DUCKDB) if peer.is_installed], ids=lambda peer: peer.name)
def test_installed_peers_recompute_every_view(peer: Peer, operations: Operations, task: Task) -> None:
    for view in task.views:
        reported, notes = run(peer, task.directory, view.name, expected_answer(operations, view))
        assert notes == []
        assert {figure.view for figure in reported} == {view.name}


def test_tailrace_is_measured_on_the_same_operations(spark: SparkSession, operations: Operations, task: Task) -> None:
    view = task.views[0]
    measured = list(ours.measure(task, view, expected_answer(operations, view)))
    assert [figure.cycle for figure in measured] == [COUNT, 10_000]
    with pytest.raises(SystemExit, match="differs from the oracle's"):
        ours.time_refreshes(task, view, [0])


def program(directory: Path, monkeypatch: pytest.MonkeyPatch, text: str) -> Peer:
    (directory / "fake_peer.py").write_text(text)
    monkeypatch.setattr(figures, "PROGRAMS", directory)
    return Peer("fake", "Fake", timeout=20, own_venv=False)


def test_a_wrong_answer_does_not_count(task: Task, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    figure = {
        "view": "sum",
        "how": "Fake",
        "cycle": 1,
        "ends": "view",
        "operations": 9,
        "seconds": [1.0],
        "answer": [1],
    }
    peer = program(tmp_path, monkeypatch, f"print('figure ' + {json.dumps(json.dumps(figure))})")
    assert [f.operations for f in run(peer, task.directory, "sum", [1])[0]] == [9]
    assert run(peer, task.directory, "sum", [2]) == (
        [],
        ["Fake had a wrong answer, so its figures do not count"],
    )


def test_a_failure_is_reported(task: Task, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    peer = program(tmp_path, monkeypatch, "raise SystemExit('out of luck')")
    reported, (note,) = run(peer, task.directory, "sum", [])
    assert reported == []
    assert "Fake failed (out of luck)" in note


def test_a_program_over_its_time_limit_is_killed_with_its_children(
    task: Task, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    text = f"import subprocess; subprocess.run([{sys.executable!r}, '-c', 'import time; time.sleep(600)'])"
    slow = program(tmp_path, monkeypatch, text)
    reported, (note,) = run(Peer(slow.name, slow.title, timeout=1, own_venv=False), task.directory, "sum", [])
    assert reported == []
    assert "was stopped after 1 s" in note


def test_an_absent_peer_is_reported(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(figures, "ROOT", tmp_path)
    assert run(DUCKDB, tmp_path, "sum", []) == (
        [],
        ["DuckDB is not installed, so it was skipped (make bench-peers installs it)"],
    )


def test_results_compare_the_best_with_the_best() -> None:
    our_figures = [
        Figure("sum", "Tailrace", cycle, "view", 100_000, (seconds,), ())
        for cycle, seconds in ((100_000, 1), (10_000, 4))
    ]
    peer_figures = [
        Figure("sum", "Flink", 10_000, "nothing", 100_000, (2,), ()),
        Figure("sum", "DuckDB (recomputing)", 10_000, "view", 100_000, (5,), ()),
    ]
    (all_,) = _targets(our_figures, peer_figures, 1, ("view", "changes", "nothing"))
    (kept,) = _targets(our_figures, peer_figures, 2, ("view", "changes"))
    assert (all_.got, kept.got) == (2, 5)
    assert all_.what == (
        "SUM and COUNT: multiple of the rate of the fastest peer, "
        "Flink at cycles of 10k; no figures for Spark, Pathway, Deephaven"
    )
    flink, _ = _ratios(our_figures, peer_figures)
    assert flink == "Tailrace is 2.00 times as fast as Flink, each at its best cycle size (0.50 at cycles of 10k)"
    (line,) = _lines(our_figures, Whose.TAILRACE)
    assert [point.x for point in line.points] == ["10k", "all"]
