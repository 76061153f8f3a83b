"""Locks of an embedded store: lock files with `flock`. The operating system releases them when a process dies."""

from __future__ import annotations

import fcntl
import os
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import datetime
from pathlib import Path

import msgspec

from tailrace.errors import Corrupt, EpochsLocked
from tailrace.store import documents
from tailrace.store.lmdb import private
from tailrace.store.lmdb.environment import gone, translate
from tailrace.store.locks import Holder, LockName
from tailrace.store.processes import is_process_alive, this_process

_UNKNOWN = Holder("unknown", "just starting", "just now")


class _Note(msgspec.Struct, frozen=True):
    """The content of a lock file: the process that holds the lock."""

    pid: int
    host: str
    started: int | None
    command: str
    since: str


@contextmanager
def held(directory: str, name: LockName, patience: float = 0.0) -> Iterator[None]:
    """Holds a lock of a store. Raises `EpochsLocked` if another process keeps it for `patience` seconds.

    Raises `NotAStore` if the store's directory has disappeared.
    """
    path = _path(directory, name)
    try:
        descriptor = private.open_file(path, os.O_RDWR | os.O_CREAT)
    except FileNotFoundError:
        raise gone(directory) from None
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
                    raise EpochsLocked(path=directory, **_read_note(descriptor)._asdict()) from None
                time.sleep(0.02)
        since = datetime.now().isoformat(timespec="seconds")
        note = _Note(**this_process(), command=Path(sys.argv[0] or "python").name, since=since)
        os.ftruncate(descriptor, 0)
        os.pwrite(descriptor, documents.encode(note), 0)
        try:
            yield
        finally:
            os.ftruncate(descriptor, 0)
    finally:
        os.close(descriptor)


def read_holder(directory: str, name: LockName) -> Holder | None:
    """The live process that holds a lock, if any.

    Reads the lock file: a holder empties it in the end unless it is killed. Trying the lock instead would hold it for a
    moment and could make a starting runner fail.
    """
    try:
        note = documents.decode("lock", _path(directory, name).read_bytes(), _Note)
    except (OSError, Corrupt):
        return None
    return _holder(note) if is_process_alive(note.pid, note.host, note.started) else None


def _path(directory: str, name: LockName) -> Path:
    return Path(directory) / f"{name}.lock"


def _read_note(descriptor: int) -> Holder:
    try:
        return _holder(documents.decode("lock", os.pread(descriptor, 4096, 0), _Note))
    except Corrupt:
        return _UNKNOWN


def _holder(note: _Note) -> Holder:
    return Holder(note.pid, note.command, note.since)
