"""The structures of a store as they lie on disk, for those who check them: nothing is decoded, nothing trusted."""

from __future__ import annotations

import struct
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

import pyarrow as pa

from tailrace.codec.schema import TableDef
from tailrace.errors import TailraceError
from tailrace.store.lmdb import log
from tailrace.store.lmdb.shard import Mark, Undo, mark_of, state_prefix, undo_epochs
from tailrace.store.lmdb.store import LmdbStore, number_key, row_prefix, scan_prefix

LAST = 2**64 - 1
# What reading damaged bytes may raise
UNREADABLE = (TailraceError, pa.ArrowException, OSError, EOFError, struct.error, ValueError, TypeError, KeyError)


class Base:
    """Rows, logs, transactions and documents, all in one transaction."""

    def __init__(self, store: LmdbStore, txn: Any) -> None:
        self._store, self._txn, self._databases = store, txn, store._base.databases

    def documents(self) -> Iterator[tuple[str, bytes]]:
        for key, value in scan_prefix(self._txn, self._databases["documents"], b""):
            yield key.decode(errors="replace"), value

    def document(self, name: str) -> bytes | None:
        value: bytes | None = self._txn.get(name.encode(), db=self._databases["documents"])
        return value

    def log(self, node: int) -> Iterator[tuple[int, bytes]]:
        """The entries of a node's log with their offsets."""
        for key, value in scan_prefix(self._txn, self._databases["log"], struct.pack(">H", node)):
            yield log.offset_of(key)[1], value

    def notes(self) -> Iterator[tuple[int, bytes]]:
        """What is noted of transactions, by their numbers."""
        for key, value in scan_prefix(self._txn, self._databases["transactions"], b""):
            yield int.from_bytes(key), value

    def note_only(self, number: int, note: bytes) -> None:
        """Let this be all that is noted of transactions."""
        db = self._databases["transactions"]
        for key in [number_key(n) for n, _ in self.notes()]:
            self._txn.delete(key, db=db)
        self._txn.put(number_key(number), note, db=db)

    def rows(self, table: TableDef, node: int) -> Iterator[tuple[bytes, bytes]]:
        prefix = row_prefix(table, node)
        for key, value in scan_prefix(self._txn, self._databases["rows"], prefix):
            yield key[len(prefix) :], value


@contextmanager
def base(store: LmdbStore, *, writing: bool = False) -> Iterator[Base]:
    with store._base.write() if writing else store._base.read() as txn:
        yield Base(store, txn)


@dataclass(frozen=True)
class Held:
    """What a shard has of one state: whether there are entries, its mark, and its undo records.

    `marked` says whether there is a mark at all; one that cannot be read is None. `damaged` are undo records that
    cannot be read, by epoch, each with the reason.
    """

    state: int
    entries: bool
    marked: bool
    mark: Mark | None
    undos: tuple[int, ...]
    damaged: dict[int, str]


def held(store: LmdbStore, shard: int) -> list[Held]:
    """All states of a shard, in one read transaction."""
    environment = store.shard(shard).environment
    data, undo, marks = (environment.databases[n] for n in ("data", "undo", "marks"))
    with environment.read() as txn:
        filled = set(_states(txn, data))
        found = sorted(filled | set(_states(txn, undo)) | set(_states(txn, marks)))
        return [_held(txn, undo, marks, state, state in filled) for state in found]


def _held(txn: Any, undo: Any, marks: Any, state: int, filled: bool) -> Held:
    value = txn.get(state_prefix(state), db=marks)
    with txn.cursor(undo) as cursor:
        undos = tuple(undo_epochs(cursor, state, 0, LAST))
    damaged = {epoch: reason for epoch in undos if (reason := _undo_fault(txn, undo, state, epoch))}
    return Held(state, filled, value is not None, mark_of(value), undos, damaged)


def _states(txn: Any, db: Any) -> Iterator[int]:
    """The states that have keys in a database, found by seeking from one to the next."""
    with txn.cursor(db) as cursor:
        more = cursor.first()
        while more:
            state = int.from_bytes(cursor.key()[:4])
            yield state
            more = state < 2**32 - 1 and cursor.set_range(state_prefix(state + 1))


def _undo_fault(txn: Any, db: Any, state: int, epoch: int) -> str | None:
    """Why an undo record cannot be used, if so: it must be whole, and its keys in order."""
    last: bytes | None = None
    try:
        undo = Undo(txn, db, state, epoch)
        undo.require()
        for key, _ in undo.items():
            if last is not None and key <= last:
                return "its keys are out of order"
            last = key
    except UNREADABLE as error:
        return str(error).partition("\n")[0] or type(error).__name__
    return None
