"""Repairs the structures of an embedded store.

Marks and undo records lead from the current entries of a shard back to those of an epoch. If they are damaged, a repair
declares the current entries to be those of the committed epoch. The caller must then recompute the state.
"""

from __future__ import annotations

import time
from contextlib import AbstractContextManager

from tailrace.codec.schema import TableDef
from tailrace.errors import Corrupt
from tailrace.store import log_entries
from tailrace.store.base import Cut
from tailrace.store.inspection import Repairs
from tailrace.store.lmdb.scratch import scratch
from tailrace.store.lmdb.shard import decode_mark, state_prefix, write_mark
from tailrace.store.lmdb.store import LmdbStore, transaction_key
from tailrace.store.lmdb.structure import LmdbInspection
from tailrace.store.lmdb.undo import LAST_EPOCH, remove_undo, undo_epochs


class LmdbRepairs(Repairs):
    def __init__(self, store: LmdbStore) -> None:
        self._store = store

    def roll_back(self, epoch: int) -> list[tuple[int, int]]:
        shards = range(self._store.shards)
        return [(index, state) for index in shards for state in self._store.shard(index).roll_back(epoch)]

    def reset_state(self, shard: int, state: int, committed: int) -> None:
        environment = self._store.shard(shard).environment
        undo_db = environment.databases["undo"]
        with environment.write() as txn:
            with txn.cursor(undo_db) as cursor:
                epochs = list(undo_epochs(cursor, state, 0, LAST_EPOCH))
            for epoch in epochs:
                remove_undo(txn, undo_db, state, epoch)
            # Without a readable mark, the keys are taken as they are stored. The state is recomputed anyway.
            mark = decode_mark(txn.get(state_prefix(state), db=environment.databases["marks"]))
            write_mark(txn, environment, state, committed, committed, b"" if mark is None else mark.form)

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
            txn.put(transaction_key(newest), log_entries.encode_note(time.time(), sum(ends), ends), db=db)
        return Cut(newest, tuple(ends))

    def add_to_count(self, table: TableDef, rows: int) -> None:
        with self._store.environment.write() as txn:
            self._store.add_count(txn, table, rows)

    def scratch(self) -> AbstractContextManager[LmdbStore]:
        return scratch(self._store)


def _read_header(node: int, offset: int, value: bytes) -> tuple[int, int]:
    """Operations and transaction of a log entry; the least possible values, 1 and 0, for a damaged one."""
    try:
        entry = log_entries.decode(node, offset, value)
    except Corrupt:
        return 1, 0
    return entry.operations, entry.transaction
