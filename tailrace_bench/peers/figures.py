"""Runs the peers' programs, each in its own venv, and checks their answers before their figures count."""

from __future__ import annotations

import contextlib
import json
import os
import signal
import subprocess
import sys
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from tailrace_bench.peers.programs.shared import FIGURE
from tailrace_bench.results import Spread

ROOT = Path(__file__).resolve().parents[2]
PROGRAMS = Path(__file__).parent / "programs"


@dataclass(frozen=True)
class Figure:
    """One measurement: `operations` took `seconds` (one entry per run), with the view current after every `cycle`."""

    view: str
    how: str
    cycle: int
    ends: str
    operations: int
    seconds: tuple[float, ...]
    answer: tuple[int, ...]

    @classmethod
    def from_json(cls, document: Mapping[str, object]) -> Figure:
        values = {name: tuple(v) if isinstance(v, list) else v for name, v in document.items()}
        return cls(**values)  # type: ignore[arg-type]

    @property
    def rate(self) -> Spread:
        """Operations per second."""
        return Spread.of([self.operations / seconds for seconds in self.seconds])

    @property
    def seconds_per_cycle(self) -> Spread:
        return Spread.of([seconds * self.cycle / self.operations for seconds in self.seconds])


@dataclass(frozen=True)
class Peer:
    """A system and the time limit of its program per view. It runs in its own venv or in ours."""

    name: str
    title: str
    timeout: float = 300.0
    own_venv: bool = True

    @property
    def python(self) -> Path:
        return ROOT / ".venv-peers" / self.name / "bin" / "python" if self.own_venv else Path(sys.executable)

    @property
    def is_installed(self) -> bool:
        return not self.own_venv or (self.python.parent.parent / ".ready").exists()


SPARK = Peer("spark", "Spark", own_venv=False)
DUCKDB = Peer("duckdb", "DuckDB")
PEERS = (SPARK, DUCKDB, Peer("pathway", "Pathway"), Peer("flink", "Flink"), Peer("deephaven", "Deephaven"))


def run(peer: Peer, task: Path, view: str, expected: Sequence[int]) -> tuple[list[Figure], list[str]]:
    """The peer's correct figures for a view, and notes if it is absent, too slow, failed or wrong."""
    if not peer.is_installed:
        return [], [f"{peer.title} is not installed, so it was skipped (make bench-peers installs it)"]
    print(f"  {peer.title}, {view} ...", file=sys.stderr, flush=True)
    reported, notes = _run_program(peer, task, view)
    correct = [figure for figure in reported if list(figure.answer) == list(expected)]
    wrong = sorted({figure.how for figure in reported if figure not in correct})
    return correct, notes + [f"{how} had a wrong answer, so its figures do not count" for how in wrong]


def _run_program(peer: Peer, task: Path, view: str) -> tuple[list[Figure], list[str]]:
    command = [str(peer.python), str(PROGRAMS / f"{peer.name}_peer.py"), str(task), view]
    log = task / f"{peer.name}.log"
    with log.open("wb") as errors:
        # Its own session, so that the program's children (such as a JVM) can be killed with it.
        process = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=errors, cwd=task, start_new_session=True)
        timed_out = False
        try:
            out, _ = process.communicate(timeout=peer.timeout)
        except subprocess.TimeoutExpired:
            timed_out = True
        finally:
            _kill_group(process.pid)
        if timed_out:
            out, _ = process.communicate()
    notes = []
    if timed_out:
        notes.append(f"{peer.title} was stopped after {peer.timeout:g} s; the figures it had reported by then count")
    elif process.returncode:
        last = log.read_text(errors="replace").strip().splitlines()[-1:] or [""]
        notes.append(f"{peer.title} failed ({last[0][:200]}); the figures it had reported by then count")
    return list(_parse_figures(out.decode(errors="replace"))), notes


def _kill_group(group: int) -> None:
    with contextlib.suppress(ProcessLookupError):
        os.killpg(group, signal.SIGKILL)


def _parse_figures(out: str) -> Iterator[Figure]:
    for line in out.splitlines():
        if line.startswith(f"{FIGURE} "):
            yield Figure.from_json(json.loads(line.removeprefix(f"{FIGURE} ")))
