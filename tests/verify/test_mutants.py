"""The checker catches engines that are broken on purpose: it reports the missed level with a witness.

Each mutant is a `sitecustomize.py`, which Python runs at startup. So the driver and Spark's workers are broken in the
same way, and the engine itself needs no switch for it.
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


def run_and_check(tmp_path: Path, spark: Any, mutant: str | None) -> Checked:
    """Runs the workload on the engine, or on a mutant of it, and checks the recording."""
    paths = [*([] if mutant is None else [str(HERE / "mutants" / mutant)]), str(ROOT), str(HERE.parent)]
    run = subprocess.run(
        [sys.executable, str(HERE / "mutants" / "workload.py"), str(tmp_path / "store"), str(tmp_path / "h.arrow")],
        env={**os.environ, "PYTHONPATH": os.pathsep.join(paths)},
        capture_output=True,
        text=True,
        timeout=300,
    )
    assert run.returncode == 0, run.stderr
    return tr.check(tmp_path / "h.arrow", spark=spark)


def witness_of(checked: Checked, view: str, level: Level) -> Witness:
    return next(w for w in checked.verdict.views[view].witnesses if w.level is level)


def cuts_and_values(witness: Witness) -> list[tuple[int | None, Any]]:
    return [(state.cut, state.value) for state in witness.states]


def test_the_engine_itself_passes(tmp_path: Path, spark: Any) -> None:
    checked = run_and_check(tmp_path, spark, None)
    assert checked.ok, checked.verdict
    assert (checked.epochs, checked.transactions) == (4, 3)
    assert (checked.verdict.level, checked.verdict.snapshot) == (Level.COMPLETE, True)


def test_without_undo_a_reader_sees_an_epoch_before_it_is_committed(tmp_path: Path, spark: Any) -> None:
    checked = run_and_check(tmp_path, spark, "undo")
    assert not checked.ok
    assert checked.verdict.level is Level.CONVERGENT
    missed = witness_of(checked, "totals", Level.WEAK)
    assert cuts_and_values(missed) == [(1, {"g": 0, "total": 20, "n": 2})]
    assert missed.reason == "the state is the view at cut 2, not at the cut it claims"


def test_an_epoch_applied_twice_is_caught(tmp_path: Path, spark: Any) -> None:
    checked = run_and_check(tmp_path, spark, "once")
    assert not checked.ok
    assert checked.verdict.level is Level.NONE
    missed = witness_of(checked, "totals", Level.WEAK)
    assert cuts_and_values(missed) == [(2, {"g": 0, "total": 38, "n": 2})]
    assert missed.reason == "the view's definition gives {g: 0, total: 20, n: 2} at this cut"


def test_epochs_in_the_wrong_order_make_a_view_go_back(tmp_path: Path, spark: Any) -> None:
    checked = run_and_check(tmp_path, spark, "order")
    assert not checked.ok
    assert checked.verdict.level is Level.NONE
    assert cuts_and_values(witness_of(checked, "items", Level.WEAK)) == [(3, {"id": 2, "v": 30})]
    searched = tr.check(tmp_path / "h.arrow", search=True, spark=spark)
    assert not searched.certified
    missed = witness_of(searched, "items", Level.STRONG)
    assert [value["v"] for _, value in cuts_and_values(missed)] == [30, 20]


def test_an_update_lost_between_two_writers_is_caught(tmp_path: Path, spark: Any) -> None:
    checked = run_and_check(tmp_path, spark, "isolation")
    assert not checked.ok
    assert checked.verdict.views["items"].level is Level.COMPLETE
    assert checked.verdict.views["totals"].level is Level.NONE
    assert cuts_and_values(witness_of(checked, "totals", Level.WEAK)) == [(1, {"g": 0, "total": 1, "n": 1})]
