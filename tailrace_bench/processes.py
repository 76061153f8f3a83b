"""Runs writers and `tailrace run` as separate processes, optionally pinned to one core."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager

SHUTDOWN_SECONDS = 60


@contextmanager
def running_maintenance(path: str, core: int | None = None) -> Iterator[None]:
    """Runs `tailrace run` on a store, without pauses between epochs, until the block ends."""
    command = [sys.executable, "-m", "tailrace", "run", path, "--interval", "0"]
    with _pinned_to(core):
        process = subprocess.Popen(command, stdout=subprocess.DEVNULL)
    try:
        yield
    finally:
        process.terminate()
        try:
            process.wait(SHUTDOWN_SECONDS)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()


class Writer:
    """A `tailrace_bench.writer` process. It starts to write when `transactions` is iterated."""

    def __init__(
        self, path: str, seconds: float, *, rate: int, batch: int, keys: int, seed: int, core: int | None = None
    ) -> None:
        arguments = [path, str(seconds), str(rate), str(batch), str(keys), str(seed)]
        command = [sys.executable, "-m", "tailrace_bench.writer", *arguments]
        with _pinned_to(core):
            self._process = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
        self.operations, self.seconds, self.last = 0, 0.0, 0

    def transactions(self) -> Iterator[tuple[int, float]]:
        """Starts writing and yields the number and the start time of each transaction."""
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        self._process.stdout.readline()
        self._process.stdin.write("go\n")
        self._process.stdin.flush()
        for line in self._process.stdout:
            first, second, *operations = line.split()
            if first == "end":
                self.seconds = float(second)
                break
            self.operations += int(operations[0])
            self.last = int(first)
            yield self.last, float(second)
        if self._process.wait(SHUTDOWN_SECONDS) != 0:
            raise RuntimeError(f"a writer process exited with code {self._process.returncode}; see its stderr above")

    @property
    def rate(self) -> float:
        """Operations per second that it reached."""
        return self.operations / self.seconds


@contextmanager
def _pinned_to(core: int | None) -> Iterator[None]:
    """Processes started in the block, and their descendants, run on one core. No effect without CPU affinity support.

    A new process inherits the affinity of the thread that starts it.
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
