"""Who runs epochs: file locks, which the system lets go of when their process dies.

`runner` is held by whoever maintains views: for as long as `run` runs, or one `refresh`. `epoch` is held
while one epoch or one change of the catalog is under way, so that views can be created and dropped between
the epochs of a long run by another process.
"""

from __future__ import annotations

import fcntl
import os
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import datetime
from pathlib import Path
from typing import Any

import msgspec

from tailrace.errors import Corrupt, EpochsLocked
from tailrace.store import documents
from tailrace.store.lmdb import private
from tailrace.store.lmdb.environment import translate
from tailrace.store.processes import lives, me

PATIENCE = 600.0  # seconds that a change of the catalog waits for the epoch under way


class _Note(msgspec.Struct, frozen=True):
    """Who holds a lock, written into the lock file."""

    pid: int
    host: str
    started: int | None
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
        since = datetime.now().isoformat(timespec="seconds")
        note = _Note(**me(), command=Path(sys.argv[0] or "python").name, since=since)
        os.ftruncate(descriptor, 0)
        os.pwrite(descriptor, documents.encode(note), 0)
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
        note = documents.decode("lock", (Path(store) / "runner.lock").read_bytes(), _Note)
    except (OSError, Corrupt):
        return None
    return _shown(note) if lives(note.pid, note.host, note.started) else None


def _holder(descriptor: int) -> dict[str, Any]:
    try:
        return _shown(documents.decode("lock", os.pread(descriptor, 4096, 0), _Note))
    except Corrupt:
        return {"pid": "unknown", "command": "just starting", "since": "just now"}


def _shown(note: _Note) -> dict[str, Any]:
    return {"pid": note.pid, "command": note.command, "since": note.since}
