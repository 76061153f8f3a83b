"""A process of `io.tailrace.hbase.Admin` that runs one command after another: to start Java takes seconds each time."""

from __future__ import annotations

import json
import select
import subprocess
import tempfile
import threading
import weakref
from pathlib import Path
from typing import IO, Any

from tailrace.store.hbase.java_admin import MAIN, SECONDS
from tailrace_hbase.problems import ClusterProblem

LINES = 10  # of its standard error, in an error


class AdminSession:
    """The process starts with the first command, and ends with the object, or with this process."""

    def __init__(self, hbase: Path) -> None:
        self._hbase, self._guard = hbase, threading.Lock()
        self._process: subprocess.Popen[bytes] | None = None

    def run(self, *arguments: str) -> Any:
        """Runs a command. Returns its answer. Raises `ClusterProblem` if it fails."""
        with self._guard:
            answer = self._ask(self._running(), arguments)
        if "error" in answer:
            raise ClusterProblem(f"{self._hbase} {MAIN} {' '.join(arguments)} failed: {answer['error']}")
        return answer

    def close(self) -> None:
        with self._guard:
            self._end()

    def _running(self) -> subprocess.Popen[bytes]:
        if self._process is None or self._process.poll() is not None:
            self._end()
            self._errors = tempfile.TemporaryFile()  # noqa: SIM115, closed with the process
            self._process = subprocess.Popen(
                [str(self._hbase), MAIN, "-"],
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=self._errors,
                bufsize=0,
            )
            self._finish = weakref.finalize(self, _end_process, self._process, self._errors)
        return self._process

    def _ask(self, process: subprocess.Popen[bytes], arguments: tuple[str, ...]) -> Any:
        assert process.stdin is not None
        assert process.stdout is not None
        process.stdin.write("\t".join(arguments).encode() + b"\n")
        while True:
            if not select.select([process.stdout], [], [], SECONDS)[0]:
                self._end()
                return {"error": f"it did not end within {SECONDS:.0f} s"}
            line = process.stdout.readline()
            if not line:
                last_errors = self._last_errors()
                self._end()
                return {"error": f"its process ended. {last_errors}"}
            if line.startswith(b"{"):
                return json.loads(line)

    def _last_errors(self) -> str:
        """The last lines that the process has written to its standard error."""
        self._errors.seek(0)
        lines = self._errors.read().decode(errors="replace").strip().splitlines()
        return "\n".join(["Its last messages:", *lines[-LINES:]]) if lines else "It wrote no message"

    def _end(self) -> None:
        if self._process is not None:
            self._process = None
            self._finish()


def _end_process(process: subprocess.Popen[bytes], errors: IO[bytes]) -> None:
    process.kill()
    process.communicate()
    errors.close()
