"""Which process wrote a note, and whether it still lives: for what must not outlive its process."""

from __future__ import annotations

import os
import socket
from collections.abc import Mapping
from pathlib import Path
from typing import Any


def me() -> dict[str, Any]:
    """This process, as others can find it again."""
    return {"pid": os.getpid(), "host": socket.gethostname(), "started": _started(os.getpid())}


def lives(note: Mapping[str, Any]) -> bool:
    """Whether the process of a note is there, as far as can be told: of another host nothing can."""
    if note["host"] != socket.gethostname():
        return True
    if not there(note["pid"]):
        return False
    # the system gives numbers out again: another process may have this one by now
    return note.get("started") is None or note["started"] == _started(note["pid"])


def there(pid: int) -> bool:
    """Whether a process of this machine has the number."""
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    except PermissionError:
        return True
    return True


def _started(pid: int) -> int | None:
    """When a process started, in the system's own count; None if it is over or the system does not say."""
    try:
        state, *rest = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    except OSError:
        return None
    return None if state in "ZX" else int(rest[18])
