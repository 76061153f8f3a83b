"""Locks of a store: they decide which process runs epochs, and whose writes are accepted.

    runner    held by the process that maintains views: while `run` runs, or for one `refresh`
    epoch     held during one epoch or one change of the catalog, so that views can be created between two epochs

Each process that takes the epoch lock has a **term**, with a greater number than that of the process before it. Before
a holder resumes or rolls back an epoch left open, it *fences* earlier terms: shards then refuse their writes, and
documents of epochs change only under the current term. So a replaced holder, or a task that outlived its driver, can
neither apply nor commit.
"""

from __future__ import annotations

import time
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Literal, NamedTuple, Protocol

from tailrace.store.base import Store
from tailrace.store.documents import Count, Document, Kind
from tailrace.store.processes import is_this_process, this_process

PATIENCE = 600.0  # seconds that a change of the catalog waits for the current epoch

LockName = Literal["runner", "epoch"]


class Holder(NamedTuple):
    """The process that holds a lock."""

    pid: int | str
    command: str
    since: str


class Term(Document, frozen=True):
    """The newest term of the epoch lock, and the process that holds it.

    `burnt` is the largest number of an epoch that was rolled back. New epochs must use greater numbers.
    """

    number: Count
    pid: Count
    host: str
    started: Count | None = None
    burnt: Count = 0


TERM: Kind[Term] = Kind("term", Term)


class Tenure(Protocol):
    """What an epoch needs to know about the epoch lock under which it runs."""

    @property
    def term(self) -> int:
        """The number of the current term."""

    @property
    def burnt(self) -> int:
        """The largest number of an epoch that was rolled back."""

    def fence(self, burnt: int = 0) -> None:
        """Begins a new term. Shards refuse writes of earlier terms; epoch numbers up to `burnt` are not reused."""


class Unlocked(NamedTuple):
    """The tenure of a scratch store: no other process writes to it, so it needs no lock."""

    term: int = 0
    burnt: int = 0

    def fence(self, burnt: int = 0) -> None:
        pass


class EpochLock:
    """The epoch lock of one store, for one process."""

    def __init__(self, store: Store) -> None:
        self._store = store
        self._tenure: Term | None = None

    @contextmanager
    def held(self, patience: float = PATIENCE) -> Iterator[None]:
        """Holds the lock in the block. Raises `EpochsLocked` if another process keeps it for `patience` seconds."""
        with self._store.lock("epoch", patience):
            self._tenure = self._take_term()
            try:
                yield
            finally:
                self._tenure = None

    @property
    def term(self) -> int:
        return self._current.number

    @property
    def burnt(self) -> int:
        return self._current.burnt

    @property
    def _current(self) -> Term:
        assert self._tenure is not None, "the epoch lock is not held"
        return self._tenure

    def fence(self, burnt: int = 0) -> None:
        self._tenure = self._next_term(max(burnt, self.burnt))
        self._store.fence(self.term)

    def _take_term(self) -> Term:
        """The newest term if this process holds it, else a new one. So most epochs need no write here."""
        newest = self._store.document(TERM)
        if newest is not None and is_this_process(newest.pid, newest.host, newest.started):
            return newest
        return self._next_term(0 if newest is None else newest.burnt)

    def _next_term(self, burnt: int) -> Term:
        newest = self._store.document(TERM)
        term = Term(1 if newest is None else newest.number + 1, **this_process(), burnt=burnt)
        self._store.change_documents({TERM.name: term}, expected={TERM.name: newest})
        return term


def begin_again(store: Store) -> None:
    """Begins a term that no process has had in an earlier store at this place, and fences all others off.

    For a restored store. Terms begin with the clock there, in seconds: it grows faster than terms do.
    """
    newest = store.document(TERM) or Term(0, **this_process())
    term = Term(max(newest.number + 1, int(time.time())), **this_process(), burnt=newest.burnt)
    store.change_documents({TERM.name: term})
    store.fence(term.number)
