"""Leases: documents by which a process claims something for as long as it lives.

A process renews its leases regularly. A lease that has expired, or whose process is known to be dead, no longer counts,
and any process may remove it.
"""

from __future__ import annotations

import os
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from typing import TypeVar

from msgspec import structs

from tailrace.errors import StoreError
from tailrace.store.base import Store
from tailrace.store.documents import Count, Document, Kind
from tailrace.store.processes import is_process_alive, is_this_process, this_process

DURATION = 60.0  # seconds from a renewal to the expiry
RENEWAL = 15.0  # seconds between two renewals

L = TypeVar("L", bound="Lease")


class Lease(Document, frozen=True, kw_only=True):
    """The process that holds the lease, and when the lease expires. Leases of older stores do not expire."""

    pid: Count
    host: str
    started: Count | None = None
    expires: float | None = None

    @property
    def is_alive(self) -> bool:
        if is_this_process(self.pid, self.host, self.started):
            return True  # even if the clock jumped: this process removes its own leases
        return (self.expires is None or time.time() < self.expires) and is_process_alive(
            self.pid, self.host, self.started
        )


LEASES: Kind[Lease] = Kind("lease:", Lease, expendable=True)


def fresh_lease() -> dict[str, object]:
    """The fields of a new lease of this process."""
    return {**this_process(), "expires": time.time() + DURATION}


def is_leased(store: Store, key: str) -> bool:
    lease = store.document(LEASES, key)
    return lease is not None and lease.is_alive


@contextmanager
def renewing(store: Store, kind: Kind[L], key: str) -> Iterator[None]:
    """Renews a lease, which must exist in the store, for the duration of the block."""
    entry = (store, kind, key)
    _renewer.add(entry)
    try:
        yield
    finally:
        _renewer.remove(entry)


class _Renewer:
    """A thread that renews all leases of this process. It runs while the process has leases."""

    def __init__(self) -> None:
        self._guard = threading.Condition()
        self._renewing = threading.Lock()  # so that no lease is renewed while its store is closed
        self._entries: list[tuple[Store, Kind[Lease], str]] = []
        self._thread: threading.Thread | None = None

    def add(self, entry: tuple[Store, Kind[L], str]) -> None:
        with self._guard:
            self._entries.append(entry)  # type: ignore[arg-type]
            if self._thread is None:
                self._thread = threading.Thread(target=self._run, name="tailrace-leases", daemon=True)
                self._thread.start()

    def remove(self, entry: tuple[Store, Kind[L], str]) -> None:
        with self._renewing, self._guard:
            self._entries.remove(entry)  # type: ignore[arg-type]
            self._guard.notify()

    def _run(self) -> None:
        while True:
            with self._guard:
                self._guard.wait_for(lambda: not self._entries, timeout=RENEWAL)
                if not self._entries:
                    self._thread = None
                    return
                entries = list(self._entries)
            for entry in entries:
                with self._renewing:
                    if entry in self._entries:
                        renew(*entry)


def renew(store: Store, kind: Kind[L], key: str) -> None:
    """Extends a lease. A lease that another process removed stays removed."""
    try:
        lease = store.document(kind, key)
        if lease is not None:
            renewed = structs.replace(lease, expires=time.time() + DURATION)
            store.change_documents({kind.at(key): renewed}, expected={kind.at(key): lease})
    except StoreError:
        return  # the store was closed, or the lease changed meanwhile; the next renewal tries again


_renewer = _Renewer()


def _reset_renewer() -> None:
    global _renewer
    _renewer = _Renewer()


os.register_at_fork(after_in_child=_reset_renewer)  # the leases belong to the parent; a forked child must not renew
