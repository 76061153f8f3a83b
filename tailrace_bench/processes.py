"""Writers and maintenance as processes of their own, held to one core if wanted."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager

ENDING = 60  # seconds that a process may take to end when it is told to


@contextmanager
def maintained(path: str, core: int | None = None) -> Iterator[None]:
    """`tailrace run` on a store, without pauses, until the block ends."""
    command = [sys.executable, "-m", "tailrace", "run", path, "--interval", "0"]
    with _held_to(core):
        process = subprocess.Popen(command, stdout=subprocess.DEVNULL)
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
    """A process of `tailrace_bench.writer`, which begins when `written` is asked."""

    def __init__(
        self, path: str, seconds: float, *, rate: int, batch: int, keys: int, seed: int, core: int | None = None
    ) -> None:
        arguments = [path, str(seconds), str(rate), str(batch), str(keys), str(seed)]
        command = [sys.executable, "-m", "tailrace_bench.writer", *arguments]
        with _held_to(core):
            self._process = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
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


@contextmanager
def _held_to(core: int | None) -> Iterator[None]:
    """What is started in the block, and all that starts, runs on one core; on any where the system cannot tell it to.

    A new process has the affinity of the thread that starts it.
    """
    if core is None or not hasattr(os, "sched_setaffinity"):
        yield
        return
    cores = os.sched_getaffinity(0)
    os.sched_setaffinity(0, {sorted(cores)[core % len(cores)]})
    try:
        yield
    finally:
        os.sched_setaffinity(0, cores)
