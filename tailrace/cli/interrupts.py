"""How a command ends when it is interrupted: at once, without a traceback, and with no process left behind.

A signal may arrive during an import, while Java starts, or inside a call into Spark. Raising KeyboardInterrupt there
would print tracebacks of code that does not expect it. So the handler itself ends the process. That is safe at any
moment: a store survives the death of any process, and leases and locks end with theirs.

Work that should end between two of its units (epochs, chunks of a build) catches the first signal
(`database/signals.py`); the second one arrives here.

This module is loaded before everything else, so it imports almost nothing.
"""

from __future__ import annotations

import os
import signal
import sys
from contextlib import suppress
from typing import Any, NoReturn

from tailrace import temporary

INTERRUPTED = 128 + signal.SIGINT
TERMINATED = 128 + signal.SIGTERM
_SHOW_CURSOR = b"\r\x1b[K\x1b[?25h"  # a progress display may have hidden it

_stderr = 2


def install() -> None:
    """Lets SIGINT and SIGTERM end this process. Call it in the main thread."""
    global _stderr
    _stderr = os.dup(2)  # file 2 is redirected while Spark starts
    signal.signal(signal.SIGINT, _on_interrupt)
    signal.signal(signal.SIGTERM, _on_termination)


def _on_interrupt(*_: Any) -> NoReturn:
    _say(b"interrupted\n")
    leave(INTERRUPTED)


def _on_termination(*_: Any) -> NoReturn:
    leave(TERMINATED)


def _say(message: bytes) -> None:
    with suppress(OSError):
        os.write(_stderr, (_SHOW_CURSOR if os.isatty(_stderr) else b"") + message)


def leave(code: int) -> NoReturn:
    """Ends this process and all processes that it started, and removes its temporary directories."""
    for number in (signal.SIGINT, signal.SIGTERM):
        signal.signal(number, signal.SIG_IGN)
    with suppress(Exception):
        sys.stdout.flush()
    for pid in descendants(os.getpid()):
        with suppress(OSError):
            os.kill(pid, signal.SIGKILL)
    temporary.remove_all()
    os._exit(code)


def descendants(pid: int) -> list[int]:
    """The processes that a process has started, and those that they have started."""
    children: dict[int, list[int]] = {}
    for child, parent in _processes():
        children.setdefault(parent, []).append(child)
    found, parents = [], [pid]
    while parents:
        parents = [child for parent in parents for child in children.get(parent, ())]
        found += parents
    return found


def _processes() -> list[tuple[int, int]]:
    """All processes of this machine: their ids and those of their parents."""
    if not os.path.isdir("/proc/self"):
        return _processes_by_ps()
    processes = []
    for name in os.listdir("/proc"):
        if name.isdigit():
            with suppress(OSError, ValueError, IndexError), open(f"/proc/{name}/stat") as file:
                processes.append((int(name), int(file.read().rpartition(")")[2].split()[1])))
    return processes


def _processes_by_ps() -> list[tuple[int, int]]:
    import subprocess

    try:
        listed = subprocess.run(["ps", "-A", "-o", "pid=,ppid="], capture_output=True, text=True, timeout=5).stdout
    except (OSError, subprocess.SubprocessError):
        return []
    return [(int(pid), int(parent)) for pid, parent in (line.split() for line in listed.splitlines())]
