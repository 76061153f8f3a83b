"""The structures of an embedded store as they are on disk, for audits. Nothing that is read is trusted."""

from __future__ import annotations

import struct
from collections.abc import Iterator, Mapping
from typing import Any

import numpy as np

from tailrace.codec.murmur import hash_buckets
from tailrace.codec.schema import TableDef
from tailrace.errors import TailraceError
from tailrace.store.base import Cut
from tailrace.store.inspection import UNREADABLE, Inspection, RowAudit, StateRecord
from tailrace.store.lmdb import log
from tailrace.store.lmdb.shard import Undo, decode_mark, state_prefix, undo_epochs
from tailrace.store.lmdb.store import COUNTS, LmdbStore, row_prefix, scan_prefix

LAST = 2**64 - 1
RUN = 10_000  # rows decoded at a time


class LmdbInspection(Inspection):
    """Rows, logs, transactions and documents, all in one transaction; shards in one of their own each."""

    def __init__(self, store: LmdbStore, txn: Any) -> None:
        self._store, self._txn, self._databases = store, txn, store.environment.databases

    def documents(self) -> list[tuple[str, bytes]]:
        stored = scan_prefix(self._txn, self._databases["documents"], b"")
        return [(key.decode(errors="replace"), value) for key, value in stored]

    def transactions(self) -> Iterator[tuple[int, bytes]]:
        """The notes of transactions, by number."""
        for key, value in scan_prefix(self._txn, self._databases["transactions"], b""):
            yield int.from_bytes(key), value

    def log(self, node: int) -> Iterator[tuple[int, bytes]]:
        """The entries of a node's log, by offset."""
        for key, value in scan_prefix(self._txn, self._databases["log"], struct.pack(">H", node)):
            yield log.decode_log_key(key)[1], value

    def transaction_faults(self, committed: Cut) -> tuple[list[str], tuple[int, ...] | None]:
        faults: list[str] = []
        last, ends = committed.transaction, committed.offsets
        previous: tuple[int, tuple[int, ...]] | None = None
        for number, value in self.transactions():
            if len(value) != len(log.encode_note(0.0, 0, committed.offsets)):
                faults.append(f"transaction {number}: {len(value)} bytes")
                previous = None
                continue
            _, operations, at = log.decode_note(value)
            if operations != sum(at) or (previous and any(a < b for a, b in zip(at, previous[1], strict=True))):
                faults.append(f"transaction {number}: its log ends are inconsistent")
            elif previous and number != previous[0] + 1:
                faults.append(f"transaction {number} follows {previous[0]}")
            elif number == committed.transaction and at != committed.offsets:
                faults.append(f"transaction {number}: its log ends differ from the committed cut")
            previous = number, at
            last, ends = number, at
        if not faults and last < committed.transaction:
            faults.append(f"transaction {last} is the last, but {committed.transaction} is committed")
        return faults, None if faults else ends

    def log_faults(
        self, node: int, start: int, end: int | None, tables: Mapping[int, TableDef]
    ) -> Iterator[tuple[int, str]]:
        expected: int | None = None
        first = True
        for offset, value in self.log(node):
            if first and offset > start:
                yield start, f"the entries up to {offset} are missing"
            elif expected is not None and offset != expected:
                yield expected, f"the entries up to {offset} are missing"
            first = False
            try:
                entry = log.decode(node, offset, value)
                if entry.table in tables:
                    log.decode_rows(entry, tables[entry.table]).validate(full=True)
                expected = offset + entry.operations
            except UNREADABLE as error:
                yield offset, explain(error)
                expected = None
        if first:
            expected = start
        if end is not None and expected is not None and expected != end:
            yield expected, f"the entries up to {end} are missing"

    def audit_rows(self, table: TableDef) -> RowAudit:
        faults: list[str] = []
        count = 0
        for node in range(self._store.nodes):
            prefix, run = row_prefix(table, node), list[tuple[bytes, bytes]]()
            for key, value in scan_prefix(self._txn, self._databases["rows"], prefix):
                run.append((key[len(prefix) :], value))
                if len(run) == RUN:
                    faults += self._misplaced(table, node, run)
                    count, run = count + len(run), []
            faults += self._misplaced(table, node, run)
            count += len(run)
        counted = self._txn.get(COUNTS.at(table.id).encode(), db=self._databases["documents"])
        return RowAudit(faults, count, int(counted or 0))

    def _misplaced(self, table: TableDef, node: int, run: list[tuple[bytes, bytes]]) -> list[str]:
        """Rows of a node that cannot be read, or are not under their own key and on their own node."""
        if not run:
            return []
        try:
            rows = table.rows.decode([value for _, value in run])
            rows.validate(full=True)
            columns = table.key_columns(rows)
            keys = self._store.key_limit.shorten(table.keys.encode(columns, len(run))).to_pylist()
            nodes = hash_buckets(columns, self._store.nodes, len(run))
        except UNREADABLE as error:
            if len(run) == 1:
                return [f"the row under key 0x{run[0][0].hex()}: {explain(error)}"]
            half = len(run) // 2
            return self._misplaced(table, node, run[:half]) + self._misplaced(table, node, run[half:])
        wrong = {i for i, (key, _) in enumerate(run) if key != keys[i]} | set(np.flatnonzero(nodes != node).tolist())
        return [f"the row under key 0x{run[i][0].hex()} has another key, or belongs to another node" for i in wrong]

    def states(self, shard: int) -> list[StateRecord]:
        environment = self._store.shard(shard).environment
        data, undo, marks = (environment.databases[n] for n in ("data", "undo", "marks"))
        with environment.read() as txn:
            filled = set(_states(txn, data))
            numbers = sorted(filled | set(_states(txn, undo)) | set(_states(txn, marks)))
            return [_record(txn, undo, marks, state, state in filled) for state in numbers]

    def lost_shard_advice(self, shard: int) -> str:
        return f"Close the store everywhere and remove its directory shards/{shard:03d}"


def _record(txn: Any, undo: Any, marks: Any, state: int, filled: bool) -> StateRecord:
    value = txn.get(state_prefix(state), db=marks)
    with txn.cursor(undo) as cursor:
        undos = tuple(undo_epochs(cursor, state, 0, LAST))
    damaged = {epoch: reason for epoch in undos if (reason := _undo_fault(txn, undo, state, epoch))}
    return StateRecord(state, filled, value is not None, decode_mark(value), undos, damaged)


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
        return explain(error)
    return None


def explain(error: Exception) -> str:
    """One line about an error that damaged bytes caused."""
    reason = error.data.get("reason") if isinstance(error, TailraceError) else None
    return str(reason or error).partition("\n")[0] or type(error).__name__
