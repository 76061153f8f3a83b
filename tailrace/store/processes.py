"""Which process wrote a note, and whether it still lives: for what must not outlive its process."""

from __future__ import annotations

import os
import socket
from pathlib import Path
from typing import Any


def this_process() -> dict[str, Any]:
    """This process, as others can find it again."""
    return {"pid": os.getpid(), "host": socket.gethostname(), "started": _start_time(os.getpid())}


def is_process_alive(pid: int, host: str, started: int | None) -> bool:
    """Whether a process is alive, as far as this host can tell: it cannot tell of another host's."""
    if host != socket.gethostname():
        return True
    if not pid_exists(pid):
        return False
    # the system reuses process ids: another process may have this one by now
    return started is None or started == _start_time(pid)


def pid_exists(pid: int) -> bool:
    """Whether a process of this machine has the number."""
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    except PermissionError:
        return True
    return True


def _start_time(pid: int) -> int | None:
    """When a process started, in the system's own count; None if it is over or the system does not say."""
    try:
        state, *rest = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    except OSError:
        return None
    return None if state in "ZX" else int(rest[18])
