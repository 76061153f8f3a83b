"""A Java process of a local cluster: it has a role, a pid file and a log file, and outlives its starter."""

from __future__ import annotations

import os
import signal
import subprocess
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

import psutil

from tailrace_hbase.problems import ClusterProblem

# Java 17 does not let HBase, Hadoop and Spark reflect on these packages otherwise.
OPENED = tuple(
    f"--add-opens=java.base/{package}=ALL-UNNAMED"
    for package in ("java.io", "java.lang", "java.lang.reflect", "java.net", "java.nio", "java.util", "sun.nio.ch")
)


@dataclass(frozen=True)
class JavaProcess:
    """One role of the cluster in `directory`."""

    directory: Path
    role: str

    @property
    def log(self) -> Path:
        return self.directory / "logs" / f"{self.role}.log"

    def pid(self) -> int | None:
        """Returns the id of the running process. A pid that belongs to another program by now does not count."""
        try:
            pid = int(self._pid_file.read_text())
            ours = self._mark in _command(psutil.Process(pid))
        except (FileNotFoundError, ValueError, psutil.NoSuchProcess):
            return None
        return pid if ours else None

    def memory(self) -> int:
        """Returns the resident memory in bytes, 0 if the process does not run."""
        pid = self.pid()
        return psutil.Process(pid).memory_info().rss if pid is not None else 0

    def launch(
        self, java: str, options: Sequence[str], main: Sequence[str], env: Mapping[str, str] | None = None
    ) -> None:
        """Starts `java` with its options, and with the main class and its arguments."""
        with open(self.log, "ab") as log:
            process = subprocess.Popen(
                [java, self._mark, *options, *main],
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=log,
                cwd=self.directory,
                env=env,
                start_new_session=True,
            )
        self._pid_file.write_text(str(process.pid))
        _children.append(process)

    def kill(self, sent: signal.Signals = signal.SIGKILL, seconds: float = 30) -> None:
        """Sends a signal and waits for the end. A process that ignores SIGTERM is killed after `seconds`."""
        pid = self.pid()
        if pid is not None:
            os.kill(pid, sent)
            if not self._ended_within(seconds):
                os.kill(pid, signal.SIGKILL)
                if not self._ended_within(30):
                    raise ClusterProblem(f"{self.role} (process {pid}) does not end.")
        self._pid_file.unlink(missing_ok=True)

    def tail(self, lines: int = 15) -> str:
        if not self.log.exists():
            return ""
        return "\n".join(self.log.read_text(errors="replace").splitlines()[-lines:])

    def _ended_within(self, seconds: float) -> bool:
        end = time.monotonic() + seconds
        while self.pid() is not None:
            for child in _children:
                child.poll()  # a child that ended stays a zombie until somebody asks for it
            if time.monotonic() > end:
                return False
            time.sleep(0.02)
        return True

    @property
    def _pid_file(self) -> Path:
        return self.directory / f"{self.role}.pid"

    @property
    def _mark(self) -> str:
        return f"-Dtailrace.local={self.directory}:{self.role}"


def _command(process: psutil.Process) -> list[str]:
    """The command line of a process; empty if it has ended, or if there is none."""
    end = time.monotonic() + 5
    while not (command := process.cmdline()) and time.monotonic() < end:  # none for a moment while it is started
        if process.status() == psutil.STATUS_ZOMBIE:
            break
        time.sleep(0.01)
    return command if process.status() != psutil.STATUS_ZOMBIE else []


# Processes that this process started itself.
_children: list[subprocess.Popen[bytes]] = []
