"""Who runs epochs: file locks, which the system lets go of when their process dies.

`runner` is held by whoever maintains views: for as long as `run` runs, or one `refresh`. `epoch` is held
while one epoch or one change of the catalog is under way, so that views can be created and dropped between
the epochs of a long run by another process.
"""

from __future__ import annotations

import fcntl
import json
import os
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import datetime
from pathlib import Path
from typing import Any, TypedDict

from tailrace.errors import Corrupt, EpochsLocked
from tailrace.store import shapes
from tailrace.store.lmdb import private
from tailrace.store.lmdb.environment import translate
from tailrace.store.processes import lives, me

PATIENCE = 600.0  # seconds that a change of the catalog waits for the epoch under way


class _Note(TypedDict):
    pid: int
    command: str
    since: str


@contextmanager
def held(store: str, name: str, patience: float = 0.0) -> Iterator[None]:
    """Hold a lock of the store; `EpochsLocked` names its holder when it stays taken."""
    path = Path(store) / f"{name}.lock"
    try:
        descriptor = private.opened(path, os.O_RDWR | os.O_CREAT)
    except OSError as error:
        raise translate(str(path), error) from error
    try:
        deadline = time.monotonic() + patience
        while True:
            try:
                fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
                break
            except BlockingIOError:
                if time.monotonic() >= deadline:
                    raise EpochsLocked(path=store, **_holder(descriptor)) from None
                time.sleep(0.02)
        note = {
            **me(),
            "command": Path(sys.argv[0] or "python").name,
            "since": datetime.now().isoformat(timespec="seconds"),
        }
        os.ftruncate(descriptor, 0)
        os.pwrite(descriptor, json.dumps(note).encode(), 0)
        try:
            yield
        finally:
            os.ftruncate(descriptor, 0)
    finally:
        os.close(descriptor)


def runner(store: str) -> dict[str, Any] | None:
    """Who maintains views now (`pid`, `command`, `since`), if anybody.

    Told by the note in the file, which only a process that was killed leaves behind: to try the lock would be to
    take it for a moment, in the way of a runner that just starts.
    """
    try:
        found = json.loads((Path(store) / "runner.lock").read_bytes())
        return {name: found[name] for name in ("pid", "command", "since")} if lives(found) else None
    except (OSError, ValueError, KeyError, TypeError):
        return None


def _holder(descriptor: int) -> dict[str, Any]:
    try:
        found = shapes.parsed("a lock", os.pread(descriptor, 4096, 0), _Note)
        return {"pid": found["pid"], "command": found["command"], "since": found["since"]}
    except Corrupt:
        return {"pid": "unknown", "command": "just starting", "since": "just now"}
