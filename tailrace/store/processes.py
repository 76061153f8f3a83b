"""Identifies machines and processes, so that leases and locks of a dead process can be recognised."""

from __future__ import annotations

import os
import socket
from pathlib import Path
from typing import Any


def this_machine() -> str:
    """Identifies the running kernel: all containers of a machine have the same. Without /proc, the host name."""
    try:
        return Path("/proc/sys/kernel/random/boot_id").read_text().strip()
    except OSError:
        return socket.gethostname()


def this_process() -> dict[str, Any]:
    """The identity of this process: process id, host and start time."""
    return {"pid": os.getpid(), "host": socket.gethostname(), "started": _start_time(os.getpid())}


def is_this_process(pid: int, host: str, started: int | None) -> bool:
    return {"pid": pid, "host": host, "started": started} == this_process()


def is_process_alive(pid: int, host: str, started: int | None) -> bool:
    """Whether a process is alive. True for processes of other hosts, because this host cannot tell."""
    if host != socket.gethostname():
        return True
    if not pid_exists(pid):
        return False
    # The operating system reuses process ids; the start time tells two processes with the same id apart.
    return started is None or started == _start_time(pid)


def pid_exists(pid: int) -> bool:
    """Whether a process with this id exists on this host."""
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    except PermissionError:
        return True
    return True


def _start_time(pid: int) -> int | None:
    """A process's start time in clock ticks since boot; None if it has ended, or /proc is not available."""
    try:
        state, *rest = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    except OSError:
        return None
    return None if state in "ZX" else int(rest[18])
