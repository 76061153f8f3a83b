"""The child processes of a fault run, and the writes that were acknowledged to the writers."""

from __future__ import annotations

import contextlib
import json
import os
import subprocess
import sys
import threading
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any, TypeVar

import psutil

HERE = Path(__file__).parent
PATIENCE = 300.0  # seconds; even on a busy machine, a longer wait means a hang

T = TypeVar("T")


def until(condition: Callable[[], T], what: str, now: Callable[[], object] = str, pause: float = 0.02) -> T:
    """Waits for a condition and returns its value. `now` describes the situation if it never holds."""
    end = time.monotonic() + PATIENCE
    while not (value := condition()):
        assert time.monotonic() < end, f"waited for {what}: {now()}"
        time.sleep(pause)
    return value


class Child:
    """A process that prints lines of JSON (`said`), and its child processes."""

    def __init__(self, log: Path, faults: Path, program: str, *arguments: object, **env: str) -> None:
        self.log, self.said, self._heard = log, [], []  # type: ignore[var-annotated]
        environment = {**os.environ, "TAILRACE_FAULTS": str(faults), "PYTHONPATH": os.pathsep.join(sys.path), **env}
        with log.open("ab") as errors:
            self.process = subprocess.Popen(
                [sys.executable, str(HERE / program), *map(str, arguments)],
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=errors,
                text=True,
                env=environment,
            )
        self._listener = threading.Thread(target=self._listen, daemon=True)
        self._listener.start()

    def _listen(self) -> None:
        assert self.process.stdout is not None
        for line in self.process.stdout:
            if line.endswith("\n"):
                self.hear(json.loads(line))

    def hear(self, words: list[Any]) -> None:
        self.said.append(words)

    def count(self, word: str) -> int:
        return sum(words[0] == word for words in list(self.said))

    def last(self, word: str) -> list[Any]:
        return next(words for words in reversed(list(self.said)) if words[0] == word)

    def wait_for(self, word: str, count: int = 1) -> list[Any]:
        """Waits until the process has printed `count` lines that begin with `word`; returns the last of them."""

        def heard() -> bool:
            assert self.alive or self.count(word) >= count, f"{self.process.args} ended: {self.log.read_text()[-3000:]}"
            return self.count(word) >= count

        until(heard, repr(word), lambda: (self.said[-5:], self.log.read_text()[-1000:]))
        return self.last(word)

    def tell(self, line: object) -> None:
        assert self.process.stdin is not None
        self.process.stdin.write(f"{line}\n")
        self.process.stdin.flush()

    @property
    def alive(self) -> bool:
        return self.process.poll() is None

    def children(self) -> list[psutil.Process]:
        try:
            return psutil.Process(self.process.pid).children(recursive=True)
        except psutil.NoSuchProcess:
            return []

    def workers(self) -> list[psutil.Process]:
        """Spark's Python daemons and workers."""
        return [p for p in self.children() if "tailrace.spark.daemon" in _command(p)]

    def javas(self, word: str = "") -> list[psutil.Process]:
        return [p for p in self.children() if "java" in _command(p).split(" ")[0] and word in _command(p)]

    def kill(self) -> int:
        """Sends SIGKILL to the process only. Its children must notice by themselves."""
        self.process.kill()
        return self.ended()

    def ended(self) -> int:
        """Waits until the process has ended and all of its output was read; returns its exit code."""
        code = self.process.wait(PATIENCE)
        self._listener.join(PATIENCE)
        for pipe in (self.process.stdin, self.process.stdout):
            if pipe is not None:
                with contextlib.suppress(BrokenPipeError):
                    pipe.close()
        return code

    def end(self) -> None:
        """Kills the process and all its children."""
        children = self.children()
        self.kill()
        for child in children:
            with contextlib.suppress(psutil.NoSuchProcess):
                child.kill()


def _command(process: psutil.Process) -> str:
    try:
        return " ".join(process.cmdline())
    except psutil.Error:
        return ""


Rows = dict[str, dict[int, Any]]


class Writer(Child):
    """A writer process, and the rows whose writes were acknowledged to it.

    `pending` is a write without an acknowledgement; it may or may not have been committed.
    """

    def __init__(self, log: Path, faults: Path, store: str, first: int, seed: int, rows: Rows) -> None:
        self.rows, self.pending, self.operations = rows, None, 0  # type: ignore[var-annotated]
        self.asked = 0
        super().__init__(log, faults, "fault_writer.py", store, first, seed)

    def hear(self, words: list[Any]) -> None:
        match words:
            case ["put" | "delete", _, _]:
                self.pending = words
            case ["ok", _, int(operations)]:
                self.rows, self.pending = self.applied(), None
                self.operations += operations
            case ["failed", _]:
                self.pending = None
        super().hear(words)

    def write(self, count: int) -> None:
        self.asked += 1
        self.tell(count)

    def applied(self) -> Rows:
        """The rows if the pending write was committed."""
        rows = {name: dict(by_key) for name, by_key in self.rows.items()}
        match self.pending:
            case ["put", name, put]:
                rows[name].update({row["id"]: row for row in put})
            case ["delete", name, keys]:
                for key in keys:
                    rows[name].pop(key, None)
        return rows
