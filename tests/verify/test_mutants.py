"""An engine that is broken on purpose is caught: the checker names the level that it misses, with a witness.

Each mutant is a `sitecustomize.py`, which Python runs when it starts: the driver and Spark's workers are broken
alike, and the engine itself has no switch for it.
"""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import tailrace as tr
from tailrace.verify.history.check_file import Checked
from tailrace.verify.history.verdict import Level, Witness

HERE = Path(__file__).parent
ROOT = HERE.parent.parent


def checked(tmp_path: Path, spark: Any, mutant: str | None) -> Checked:
    paths = [str(ROOT)] if mutant is None else [str(HERE / "mutants" / mutant), str(ROOT)]
    said = subprocess.run(
        [sys.executable, str(HERE / "mutants" / "workload.py"), str(tmp_path / "store"), str(tmp_path / "h.arrow")],
        env={**os.environ, "PYTHONPATH": os.pathsep.join(paths)},
        capture_output=True,
        text=True,
        timeout=300,
    )
    assert said.returncode == 0, said.stderr
    return tr.check(tmp_path / "h.arrow", spark=spark)


def witness(found: Checked, view: str, level: Level) -> Witness:
    return next(w for w in found.verdict.views[view].witnesses if w.level is level)


def shown(found: Witness) -> list[tuple[int | None, Any]]:
    return [(state.cut, state.value) for state in found.states]


def test_the_engine_itself_passes(tmp_path: Path, spark: Any) -> None:
    found = checked(tmp_path, spark, None)
    assert found.ok, found.verdict
    assert (found.epochs, found.transactions) == (4, 3)
    assert (found.verdict.level, found.verdict.snapshot) == (Level.COMPLETE, True)


def test_without_undo_a_reader_sees_an_epoch_before_it_is_committed(tmp_path: Path, spark: Any) -> None:
    found = checked(tmp_path, spark, "undo")
    assert not found.ok
    assert found.verdict.level is Level.CONVERGENT
    missed = witness(found, "totals", Level.WEAK)
    assert shown(missed) == [(1, {"g": 0, "total": 20, "n": 2})]
    assert missed.reason == "the state is the view at cut 2, not at the cut it claims"


def test_an_epoch_that_is_applied_twice_is_noticed(tmp_path: Path, spark: Any) -> None:
    found = checked(tmp_path, spark, "once")
    assert not found.ok
    assert found.verdict.level is Level.NONE
    missed = witness(found, "totals", Level.WEAK)
    assert shown(missed) == [(2, {"g": 0, "total": 38, "n": 2})]
    assert missed.reason == "the view's definition gives {g: 0, total: 20, n: 2} at this cut"


def test_epochs_in_the_wrong_order_make_a_view_go_back(tmp_path: Path, spark: Any) -> None:
    found = checked(tmp_path, spark, "order")
    assert not found.ok
    assert found.verdict.level is Level.NONE
    assert shown(witness(found, "items", Level.WEAK)) == [(3, {"id": 2, "v": 30})]
    searched = tr.check(tmp_path / "h.arrow", search=True, spark=spark)
    assert not searched.certified
    missed = witness(searched, "items", Level.STRONG)
    assert [value["v"] for _, value in shown(missed)] == [30, 20]


def test_an_update_that_is_lost_between_two_writers_is_noticed(tmp_path: Path, spark: Any) -> None:
    found = checked(tmp_path, spark, "isolation")
    assert not found.ok
    assert found.verdict.views["items"].level is Level.COMPLETE
    assert found.verdict.views["totals"].level is Level.NONE
    assert shown(witness(found, "totals", Level.WEAK)) == [(1, {"g": 0, "total": 1, "n": 1})]
