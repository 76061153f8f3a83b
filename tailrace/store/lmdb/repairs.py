"""Repairs the structures of an embedded store.

Marks and undo records lead from the current entries of a shard back to those of an epoch. If they are damaged, a repair
declares the current entries to be those of the committed epoch. The caller must then recompute the state.
"""

from __future__ import annotations

import time
from contextlib import AbstractContextManager
from typing import Any

from tailrace.codec.schema import TableDef
from tailrace.errors import Corrupt
from tailrace.store.base import Cut
from tailrace.store.inspection import UNREADABLE, Mark, Repairs
from tailrace.store.lmdb import log
from tailrace.store.lmdb.environment import Environment
from tailrace.store.lmdb.scratch import scratch
from tailrace.store.lmdb.shard import Undo, decode_mark, encode_mark, state_prefix, undo_epochs, undo_keys
from tailrace.store.lmdb.store import LmdbStore, transaction_key
from tailrace.store.lmdb.structure import LAST_EPOCH, LmdbInspection


class LmdbRepairs(Repairs):
    def __init__(self, store: LmdbStore) -> None:
        self._store = store

    def roll_back(self, committed: int) -> list[tuple[int, int]]:
        damaged: list[tuple[int, int]] = []
        for index in range(self._store.shards):
            environment = self._store.shard(index).environment
            with environment.write() as txn:
                with txn.cursor(environment.databases["marks"]) as cursor:
                    marks = [(int.from_bytes(key), decode_mark(value)) for key, value in cursor.iternext()]
                ahead = [(state, mark) for state, mark in marks if mark is not None and mark.applied > committed]
                damaged += [(index, s) for s, mark in ahead if not _roll_back(txn, environment, s, mark, committed)]
        return damaged

    def reset_state(self, shard: int, state: int, committed: int) -> None:
        environment = self._store.shard(shard).environment
        undo_db = environment.databases["undo"]
        with environment.write() as txn:
            with txn.cursor(undo_db) as cursor:
                epochs = list(undo_epochs(cursor, state, 0, LAST_EPOCH))
            for epoch in epochs:
                _remove_undo(txn, undo_db, state, epoch)
            _write_mark(txn, environment, state, committed, committed)

    def rebuild_transactions(self, committed: Cut) -> Cut:
        """Each log ends after its last entry. The boundaries of earlier transactions are lost."""
        with self._store.environment.write() as txn:
            inspection = LmdbInspection(self._store, txn)
            numbers = [number for number, _ in inspection.transactions()]
            newest, ends = max([committed.transaction, *numbers]), list(committed.offsets)
            for node in range(self._store.nodes):
                for offset, value in inspection.log(node):
                    operations, transaction = _read_header(node, offset, value)
                    ends[node] = max(ends[node], offset + operations)
                    newest = max(newest, transaction)
            db = self._store.environment.databases["transactions"]
            for number in numbers:
                txn.delete(transaction_key(number), db=db)
            txn.put(transaction_key(newest), log.encode_note(time.time(), sum(ends), ends), db=db)
        return Cut(newest, tuple(ends))

    def add_to_count(self, table: TableDef, rows: int) -> None:
        with self._store.environment.write() as txn:
            self._store.add_count(txn, table, rows)

    def scratch(self) -> AbstractContextManager[LmdbStore]:
        return scratch(self._store)


def _roll_back(txn: Any, environment: Environment, state: int, mark: Mark, committed: int) -> bool:
    """Rolls back one state. Returns False, and keeps its values, if an undo record that it needs is damaged or gone."""
    data, undo_db = environment.databases["data"], environment.databases["undo"]
    with txn.cursor(undo_db) as cursor:
        epochs = list(undo_epochs(cursor, state, committed + 1, LAST_EPOCH))
    olds = _read_olds(txn, undo_db, state, epochs) if mark.oldest <= committed and mark.applied in epochs else None
    for key, old in (olds or {}).items():
        if old is None:
            txn.delete(state_prefix(state) + key, db=data)
        else:
            txn.put(state_prefix(state) + key, old, db=data)
    for epoch in epochs:
        _remove_undo(txn, undo_db, state, epoch)
    _write_mark(txn, environment, state, committed, mark.oldest if olds is not None else committed)
    return olds is not None


def _read_olds(txn: Any, undo_db: Any, state: int, epochs: list[int]) -> dict[bytes, bytes | None] | None:
    """The values before the first of these epochs, of all keys that they changed; None if a record is damaged."""
    olds: dict[bytes, bytes | None] = {}
    try:
        for epoch in reversed(epochs):  # the earliest last, so that it wins
            undo = Undo(txn, undo_db, state, epoch)
            undo.check_complete()
            olds.update(undo.items())
    except UNREADABLE:
        return None
    return olds


def _remove_undo(txn: Any, db: Any, state: int, epoch: int) -> None:
    for key in undo_keys(txn, db, state, epoch):
        txn.delete(key, db=db)


def _write_mark(txn: Any, environment: Environment, state: int, applied: int, oldest: int) -> None:
    """Sets a mark. Its last applied epoch is that of the newest undo record, else `applied`."""
    with txn.cursor(environment.databases["undo"]) as cursor:
        undos = list(undo_epochs(cursor, state, 0, applied))
    mark = Mark(undos[-1] if undos else applied, min(oldest, undos[-1] if undos else applied))
    txn.put(state_prefix(state), encode_mark(mark), db=environment.databases["marks"])


def _read_header(node: int, offset: int, value: bytes) -> tuple[int, int]:
    """Operations and transaction of a log entry; the least possible values, 1 and 0, for a damaged one."""
    try:
        entry = log.decode(node, offset, value)
    except Corrupt:
        return 1, 0
    return entry.operations, entry.transaction
