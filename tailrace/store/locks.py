"""Locks of a store: who runs epochs, and whose writes still count.

    runner    held by the process that maintains views: for as long as `run` runs, or for one `refresh`
    epoch     held during one epoch or one change of the catalog, so that views can be created between two epochs

Each holder of the epoch lock has a **term**, a number that grows from holder to holder. A new holder that finds an
epoch left open, or takes it back, *fences* earlier terms: shards refuse their writes, and documents of epochs change
for the current term only. So a holder that was replaced, or a task that outlived its driver, can neither apply nor
commit.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Literal, NamedTuple, Protocol

from tailrace.store.base import Store
from tailrace.store.documents import Count, Document, Kind
from tailrace.store.processes import this_process

PATIENCE = 600.0  # seconds that a change of the catalog waits for the epoch under way

LockName = Literal["runner", "epoch"]


class Holder(NamedTuple):
    """The process that holds a lock."""

    pid: int | str
    command: str
    since: str


class Term(Document, frozen=True):
    """The newest term of the epoch lock, and the process that has it.

    `burnt` is the largest number of an epoch that was taken back. No later epoch may use it.
    """

    number: Count
    pid: Count
    host: str
    started: Count | None = None
    burnt: Count = 0


TERM: Kind[Term] = Kind("term", Term)


class Tenure(Protocol):
    """What an epoch needs to know of the lock under which it runs."""

    @property
    def term(self) -> int:
        """The number of the term under which the lock is held."""

    @property
    def burnt(self) -> int:
        """The largest number of an epoch that was taken back."""


class Unlocked(NamedTuple):
    """The tenure of a scratch store, which nobody else can write."""

    term: int = 0
    burnt: int = 0


class EpochLock:
    """The epoch lock of one store, as one process takes it."""

    def __init__(self, store: Store) -> None:
        self._store = store
        self._tenure: Term | None = None

    @contextmanager
    def held(self, patience: float = PATIENCE) -> Iterator[None]:
        """Hold the lock; `EpochsLocked` names its holder if it stays taken."""
        with self._store.lock("epoch", patience):
            self._tenure = self._take_term()
            try:
                yield
            finally:
                self._tenure = None

    @property
    def term(self) -> int:
        return self._held.number

    @property
    def burnt(self) -> int:
        return self._held.burnt

    @property
    def _held(self) -> Term:
        assert self._tenure is not None, "the epoch lock is not held"
        return self._tenure

    def fence(self, burnt: int) -> None:
        """Begin another term: writes of earlier terms are refused, epoch numbers up to `burnt` are not used again."""
        self._tenure = self._next_term(max(burnt, self.burnt))
        self._store.fence(self.term)

    def _take_term(self) -> Term:
        """The newest term if it is this process's, else the next one: most epochs write nothing here."""
        newest = self._store.document(TERM)
        if newest is not None and {"pid": newest.pid, "host": newest.host, "started": newest.started} == this_process():
            return newest
        return self._next_term(0 if newest is None else newest.burnt)

    def _next_term(self, burnt: int) -> Term:
        newest = self._store.document(TERM)
        term = Term(1 if newest is None else newest.number + 1, **this_process(), burnt=burnt)
        self._store.change_documents({TERM.name: term}, expected={TERM.name: newest})
        return term
