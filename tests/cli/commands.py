"""Commands as processes of their own, and the processes that they start."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import IO

import psutil

PATIENCE = 240.0  # seconds; Spark starts slowly on a busy machine


class Command:
    """A running command. Its output goes to files, so that it never waits for a reader."""

    def __init__(self, process: subprocess.Popen[bytes], out: Path, err: Path) -> None:
        self.process, self._out, self._err = process, out, err
        self._seen: set[psutil.Process] = set()

    @property
    def out(self) -> str:
        return self._out.read_text()

    @property
    def err(self) -> str:
        return self._err.read_text()

    def processes(self) -> list[psutil.Process]:
        """The processes that the command has started, and those that they have started."""
        try:
            found = psutil.Process(self.process.pid).children(recursive=True)
        except psutil.NoSuchProcess:
            return []
        self._seen.update(found)
        return found

    def runs(self, part: str) -> bool:
        """Whether a process with this text in its command line was started and is alive."""
        for process in self.processes():
            try:
                if part in " ".join(process.cmdline()):
                    return True
            except psutil.Error:
                continue
        return False

    def wait_until(self, condition: Callable[[], bool], what: str) -> None:
        end = time.monotonic() + PATIENCE
        while not condition():
            self.processes()
            said = f"{what} did not happen; stdout: {self.out}; stderr: {self.err}"
            assert self.process.poll() is None, f"the command ended with {self.process.returncode}: {said}"
            assert time.monotonic() < end, said
            time.sleep(0.02)

    def signal(self, *numbers: signal.Signals) -> None:
        self.processes()
        for number in numbers:
            self.process.send_signal(number)

    def end(self) -> int:
        """Waits for the end of the command and of all processes that it has started. Returns the exit code."""
        code = self.process.wait(PATIENCE)
        _, alive = psutil.wait_procs(list(self._seen), timeout=10)
        assert alive == [], f"left behind: {[p.cmdline() for p in alive]}"
        return code


@contextmanager
def command(directory: Path, *args: object, code: str | None = None, **env: str) -> Iterator[Command]:
    """Runs a verb, or this Python code with the arguments, in a process of its own; kills it when the block ends."""
    temporary = directory / "tmp"
    temporary.mkdir(exist_ok=True)
    start = [sys.executable, "-m", "tailrace"] if code is None else [sys.executable, "-c", code]
    environment = {**os.environ, "TMPDIR": str(temporary), **env}
    out, err = directory / "stdout", directory / "stderr"
    files: list[IO[bytes]] = [out.open("wb"), err.open("wb")]
    process = subprocess.Popen([*start, *map(str, args)], stdout=files[0], stderr=files[1], env=environment)
    for file in files:
        file.close()
    running = Command(process, out, err)
    try:
        yield running
    finally:
        for child in running.processes():
            child.kill()
        process.kill()
        process.wait()
