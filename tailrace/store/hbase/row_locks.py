"""Locks of a store on HBase: a row per lock, with its holder and a lease.

A holder renews its lease every few seconds, and counts the renewals. A process that waits for the lock watches the
count with its own clock: if it does not grow for `EXPIRY` seconds, the holder is dead or cut off, and the lock is free.
Time in which the process could not look does not count: maybe the holder could not renew its lease then, either. Clocks
of different machines are never compared. A dead holder on the same host is noticed at once.

HBase may be away when a lock is released, or when the answer to its take is lost. The row then has a note of a live
process that does not hold the lock. The process knows the ids under which it holds locks, so it takes such a lock again
at once.

A holder that was suspended may believe that it still has a lock that another process took. Terms fence it off
(`store/locks.py`).
"""

from __future__ import annotations

import os
import sys
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from datetime import datetime
from pathlib import Path

import msgspec
from msgspec import structs

from tailrace.errors import Corrupt, EpochsLocked, StoreError
from tailrace.store import documents
from tailrace.store.hbase.client import HbaseTable
from tailrace.store.hbase.versioned_row import Known, Update, Values, VersionedRow
from tailrace.store.locks import Holder
from tailrace.store.processes import is_process_alive, this_process

RENEWAL, EXPIRY = 3.0, 15.0  # seconds
GLANCE = 0.05  # seconds between two looks at a lock that another process holds
COLUMN = b"holder"

_PROCESS = os.urandom(8).hex()  # the ids of this process begin with it, and those of processes forked from it
_live: set[str] = set()  # the ids under which this process holds locks, or takes them


class _Note(msgspec.Struct, frozen=True):
    """The process that holds a lock. `id` is another one each time the lock is taken."""

    pid: int
    host: str
    started: int | None
    command: str
    since: str
    id: str
    renewals: int = 0

    @property
    def holder(self) -> Holder:
        return Holder(self.pid, self.command, self.since)

    @property
    def is_void(self) -> bool:
        """Whether the lock is known not to be held: the process is dead, or is this one and has given it up."""
        if self.id.startswith(_PROCESS) and self.pid == os.getpid():
            return self.id not in _live
        return not is_process_alive(self.pid, self.host, self.started)


class RowLocks:
    """The locks in a table `meta`. `path` names the store in errors."""

    def __init__(self, meta: HbaseTable, path: str, renewal: float = RENEWAL, expiry: float = EXPIRY) -> None:
        self._meta, self._path, self._renewal, self._expiry = meta, path, renewal, expiry
        self._released: dict[str, Known] = {}  # rows of locks as this process left them

    def holder(self, name: str) -> Holder | None:
        """The process that holds a lock, unless it is known not to hold it any more."""
        note = _note(self._row(name).read([COLUMN]))
        return None if note is None or note.is_void else note.holder

    @contextmanager
    def held(self, name: str, patience: float = 0.0) -> Iterator[None]:
        """Holds a lock in the block. Raises `EpochsLocked` if another process keeps it for `patience` seconds.

        If the holder is on another host, this may take longer: until the holder renews its lease, or is known to be
        dead.
        """
        row, own = self._row(name), _new_note()
        _live.add(own.id)
        try:
            known = self._take(row, own, patience, self._released.pop(name, None))
            try:
                with self._renewed(row, own):
                    yield
            finally:
                self._release(name, row, own, known)
        finally:
            _live.discard(own.id)

    def _take(self, row: VersionedRow, own: _Note, patience: float, known: Known | None) -> Known:
        """Takes a lock. `known` is how this process left it: mostly no other has taken it since."""
        watch, began = _Watch(self._expiry), time.monotonic()

        def decide(values: Values) -> Update | None:
            return Update({COLUMN: documents.encode(own)}) if watch.is_free(_note(values)) else None

        while True:
            known = row.change([COLUMN], decide, known)
            if (other := watch.holder) is None:
                return known
            known = None
            is_alive = watch.was_renewed or other.host == own.host
            if is_alive and time.monotonic() - began >= patience:
                raise EpochsLocked(path=self._path, **other.holder._asdict())
            time.sleep(GLANCE)

    def _release(self, name: str, row: VersionedRow, own: _Note, known: Known) -> None:
        """Frees a lock, if this process still has it. `known` is how it was taken."""
        with suppress(StoreError):  # then the lease expires
            # If the lease was not renewed, nothing has to be read.
            left = row.change([COLUMN], lambda v: Update(deletes=[COLUMN]) if _is_held(v, own) else None, known)
            if COLUMN not in left.values:
                self._released[name] = left

    @contextmanager
    def _renewed(self, row: VersionedRow, own: _Note) -> Iterator[None]:
        """Renews the lease of a lock in the block."""
        released = threading.Event()
        name = row.name.decode().replace(":", "-")
        renewer = threading.Thread(target=self._renew, args=(row, own, released), name=name, daemon=True)
        renewer.start()
        try:
            yield
        finally:
            released.set()
            renewer.join()

    def _renew(self, row: VersionedRow, own: _Note, released: threading.Event) -> None:
        """Renews the lease until the lock is released or lost."""

        def decide(values: Values) -> Update | None:
            note = _note(values)
            if note is None or note.id != own.id:
                released.set()
                return None
            return Update({COLUMN: documents.encode(structs.replace(note, renewals=note.renewals + 1))})

        while not released.wait(self._renewal):
            with suppress(StoreError):  # HBase may answer the next time
                row.change([COLUMN], decide)

    def _row(self, name: str) -> VersionedRow:
        return VersionedRow(self._meta, b"lock:" + name.encode())


class _Watch:
    """What a waiting process has seen of a lock: its last holder (None: it is free), and since when.

    A lease expires only if it was looked at all the time, at least every `expiry / 3` seconds.
    """

    def __init__(self, expiry: float) -> None:
        self._expiry, self._since, self._looked, self.was_renewed = expiry, 0.0, 0.0, False
        self.holder: _Note | None = None

    def is_free(self, note: _Note | None) -> bool:
        """Takes in what the lock's row says now. Returns whether the lock may be taken."""
        now = time.monotonic()
        if note != self.holder:
            self.was_renewed = note is not None and self.holder is not None and note.id == self.holder.id
            self.holder, self._since = note, now
        if now - self._looked > self._expiry / 3:
            self._since = now
        self._looked = now
        if note is None or note.is_void or now - self._since > self._expiry:
            self.holder = None
        return self.holder is None


def _new_note() -> _Note:
    """A note of this process."""
    command, since = Path(sys.argv[0] or "python").name, datetime.now().isoformat(timespec="seconds")
    return _Note(**this_process(), command=command, since=since, id=_PROCESS + os.urandom(8).hex())


def _note(values: Values) -> _Note | None:
    """The note in a row; None if it has none, or one that cannot be read."""
    try:
        return documents.decode("lock", values[COLUMN], _Note) if COLUMN in values else None
    except Corrupt:
        return None


def _is_held(values: Values, own: _Note) -> bool:
    note = _note(values)
    return note is not None and note.id == own.id
