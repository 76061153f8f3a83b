"""Figures of peers: programs in venvs of their own are run, and what they report is checked before it counts."""

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
    """`operations` took each of `seconds`, the view being current after every `cycle` of them."""

    view: str
    how: str
    cycle: int
    ends: str
    operations: int
    seconds: tuple[float, ...]
    answer: tuple[int, ...]

    @classmethod
    def of(cls, found: Mapping[str, object]) -> Figure:
        values = {name: tuple(v) if isinstance(v, list) else v for name, v in found.items()}
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
    """A system in a venv of its own (or, if it has none, in ours) and how long its program may take for one view."""

    name: str
    title: str
    timeout: float = 300.0
    own_venv: bool = True

    @property
    def python(self) -> Path:
        return ROOT / ".venv-peers" / self.name / "bin" / "python" if self.own_venv else Path(sys.executable)

    @property
    def there(self) -> bool:
        return not self.own_venv or (self.python.parent.parent / ".ready").exists()


SPARK = Peer("spark", "Spark", own_venv=False)
DUCKDB = Peer("duckdb", "DuckDB")
PEERS = (SPARK, DUCKDB, Peer("pathway", "Pathway"), Peer("flink", "Flink"), Peer("deephaven", "Deephaven"))


def run(peer: Peer, task: Path, view: str, expected: Sequence[int]) -> tuple[list[Figure], list[str]]:
    """What the peer found for a view of a task, and what must be said about it: absent, late, failed or wrong."""
    if not peer.there:
        return [], [f"{peer.title} is not installed, so it was skipped (make bench-peers installs it)"]
    print(f"  {peer.title}, {view} ...", file=sys.stderr, flush=True)
    found, notes = _reported(peer, task, view)
    right = [figure for figure in found if list(figure.answer) == list(expected)]
    wrong = sorted({figure.how for figure in found if figure not in right})
    return right, notes + [f"{how} had a wrong answer, so its figures do not count" for how in wrong]


def _reported(peer: Peer, task: Path, view: str) -> tuple[list[Figure], list[str]]:
    command = [str(peer.python), str(PROGRAMS / f"{peer.name}_peer.py"), str(task), view]
    log = task / f"{peer.name}.log"
    with log.open("wb") as errors:
        # A session of its own, so that what the program started (a JVM, say) can be ended with it.
        process = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=errors, cwd=task, start_new_session=True)
        late = False
        try:
            out, _ = process.communicate(timeout=peer.timeout)
        except subprocess.TimeoutExpired:
            late = True
        finally:
            _end(process.pid)
        if late:
            out, _ = process.communicate()
    notes = []
    if late:
        notes.append(f"{peer.title} was ended after {peer.timeout:g} s; what it had reported by then counts")
    elif process.returncode:
        last = log.read_text(errors="replace").strip().splitlines()[-1:] or [""]
        notes.append(f"{peer.title} failed ({last[0][:200]}); what it had reported by then counts")
    return list(_figures(out.decode(errors="replace"))), notes


def _end(group: int) -> None:
    with contextlib.suppress(ProcessLookupError):
        os.killpg(group, signal.SIGKILL)


def _figures(out: str) -> Iterator[Figure]:
    for line in out.splitlines():
        if line.startswith(f"{FIGURE} "):
            yield Figure.of(json.loads(line.removeprefix(f"{FIGURE} ")))
