"""Fault points: they do nothing without faults, a fault strikes once across all processes, and all are documented."""

from __future__ import annotations

import os
import re
import signal
import subprocess
import sys
from pathlib import Path

import pytest

import tailrace
from tailrace import faults

PACKAGE = Path(tailrace.__file__).parent


def test_a_point_does_nothing() -> None:
    assert "TAILRACE_FAULTS" not in os.environ
    assert faults.point is faults._nothing


def test_all_points_are_listed() -> None:
    used = {n for p in PACKAGE.rglob("*.py") for n in re.findall(r'faults\.point\("([^"]+)"\)', p.read_text())}
    documented = set(re.findall(r"^\| ([a-z]+\.[a-z]+) ", faults.__doc__ or "", re.MULTILINE))
    assert used == documented


def passing(directory: Path, times: int) -> int:
    """The exit code of a process that passes a point this many times."""
    script = f"from tailrace import faults\nfor _ in range({times}): faults.point('task.apply')"
    env = {**os.environ, "TAILRACE_FAULTS": str(directory), "PYTHONPATH": str(PACKAGE.parent)}
    return subprocess.run([sys.executable, "-c", script], env=env, stderr=subprocess.DEVNULL).returncode


def test_passings_count_across_processes_and_a_fault_is_met_once(tmp_path: Path) -> None:
    (tmp_path / "task.apply").write_text("kill@5")
    assert passing(tmp_path, 3) == 0
    assert passing(tmp_path, 3) == -signal.SIGKILL
    assert (tmp_path / "task.apply").read_text().startswith("met ")
    assert passing(tmp_path, 10) == 0


def test_actions(tmp_path: Path) -> None:
    point = faults.Armed(str(tmp_path))
    (tmp_path / "epoch.work").write_text("sleep:0.01@1")
    (tmp_path / "task.apply").write_text("raise@1")
    point("epoch.work")
    point("epoch.commit")
    with pytest.raises(faults.Fault, match=r"task\.apply"):
        point("task.apply")
    point("task.apply")
