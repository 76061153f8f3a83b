"""Repairs the structures of an embedded store.

Marks and undo records lead from the current entries of a shard back to those of an epoch. If they are damaged, a repair
declares the current entries to be those of the committed epoch. The caller must then recompute the state.
"""

from __future__ import annotations

import time
from contextlib import AbstractContextManager
from typing import Any

import pyarrow as pa

from tailrace.codec.schema import TableDef
from tailrace.errors import Corrupt
from tailrace.store.base import Cut
from tailrace.store.inspection import UNREADABLE, Mark, Repairs
from tailrace.store.lmdb import log
from tailrace.store.lmdb.environment import Environment
from tailrace.store.lmdb.scratch import scratch
from tailrace.store.lmdb.shard import LmdbShard, decode_mark, encode_mark, state_prefix
from tailrace.store.lmdb.store import LmdbStore, transaction_key
from tailrace.store.lmdb.structure import LAST_EPOCH, LmdbInspection
from tailrace.store.lmdb.undo import undo_epochs, undo_keys


class LmdbRepairs(Repairs):
    def __init__(self, store: LmdbStore) -> None:
        self._store = store

    def roll_back(self, epoch: int) -> list[tuple[int, int]]:
        damaged: list[tuple[int, int]] = []
        for index in range(self._store.shards):
            shard = self._store.shard(index)
            with shard.environment.write() as txn:
                marks = txn.cursor(shard.environment.databases["marks"])
                states = [int.from_bytes(key) for key, value in marks.iternext() if _is_applied(value, epoch)]
                damaged += [(index, state) for state in states if not _roll_back(txn, shard, state, epoch)]
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


def _is_applied(value: bytes, epoch: int) -> bool:
    mark = decode_mark(value)
    return mark is not None and mark.applied == epoch


def _roll_back(txn: Any, shard: LmdbShard, state: int, epoch: int) -> bool:
    """Rolls back one state. Returns False, and keeps the epoch's values, if its undo record is damaged."""
    environment = shard.environment
    try:
        undo = shard.undo(txn, state, epoch)
        undo.check_complete()
        olds = dict(undo.items())
    except UNREADABLE:
        olds = None
    if olds:
        keys, values = (pa.array([e[i] for e in sorted(olds.items())], pa.large_binary()) for i in (0, 1))
        shard.put(txn, state, keys, values)
    _remove_undo(txn, environment.databases["undo"], state, epoch)
    mark = decode_mark(txn.get(state_prefix(state), db=environment.databases["marks"]))
    oldest = mark.oldest if mark is not None and olds is not None else epoch - 1
    _write_mark(txn, environment, state, epoch - 1, min(oldest, epoch - 1))
    return olds is not None


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
