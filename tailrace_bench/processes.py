"""Writers and maintenance as processes of their own, held to one core if wanted."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

ENDING = 60  # seconds that a process may take to end when it is told to


@contextmanager
def maintained(path: str, core: int | None = None) -> Iterator[None]:
    """`tailrace run` on a store, without pauses, until the block ends."""
    command = [sys.executable, "-m", "tailrace", "run", path, "--interval", "0"]
    process = subprocess.Popen(command, stdout=subprocess.DEVNULL, preexec_fn=_held_to(core))
    try:
        yield
    finally:
        process.terminate()
        try:
            process.wait(ENDING)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()


class Writer:
    """A process of `tailrace_bench.writer`, which begins when the block does."""

    def __init__(
        self, path: str, seconds: float, *, rate: int, batch: int, keys: int, seed: int, core: int | None = None
    ) -> None:
        arguments = [path, str(seconds), str(rate), str(batch), str(keys), str(seed)]
        self._process = subprocess.Popen(
            [sys.executable, "-m", "tailrace_bench.writer", *arguments],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
            preexec_fn=_held_to(core),
        )
        self.operations, self.seconds, self.last = 0, 0.0, 0

    def written(self) -> Iterator[tuple[int, float]]:
        """Begin, and give the number of each transaction, and when it began."""
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        self._process.stdout.readline()
        self._process.stdin.write("go\n")
        self._process.stdin.flush()
        for said in self._process.stdout:
            first, second, *operations = said.split()
            if first == "end":
                self.seconds = float(second)
                break
            self.operations += int(operations[0])
            self.last = int(first)
            yield self.last, float(second)
        if self._process.wait(ENDING) != 0:
            raise RuntimeError(f"a writer ended with {self._process.returncode}")

    @property
    def rate(self) -> float:
        """Operations per second that it came to."""
        return self.operations / self.seconds


def _held_to(core: int | None) -> Callable[[], Any] | None:
    """What holds a new process, and all it starts, to one core; nothing where the system has no such means."""
    if core is None or not hasattr(os, "sched_setaffinity"):
        return None
    cores = sorted(os.sched_getaffinity(0))
    return lambda: os.sched_setaffinity(0, {cores[core % len(cores)]})
