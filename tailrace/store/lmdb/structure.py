"""Reads the structures of an embedded store for audits. Everything on disk may be damaged."""

from __future__ import annotations

import struct
from collections.abc import Iterator, Mapping
from typing import Any

import numpy as np

from tailrace.codec.murmur import hash_buckets
from tailrace.codec.schema import TableDef
from tailrace.errors import TailraceError
from tailrace.store import log_entries
from tailrace.store.base import ROW_COUNTS, Cut
from tailrace.store.inspection import UNREADABLE, Inspection, RowAudit, StateRecord
from tailrace.store.lmdb.extents import states_in
from tailrace.store.lmdb.shard import LmdbShard, decode_mark, state_prefix
from tailrace.store.lmdb.store import LmdbStore, row_prefix, scan_prefix
from tailrace.store.lmdb.undo import LAST_EPOCH, undo_epochs

BATCH_ROWS = 10_000  # rows decoded at a time


class LmdbInspection(Inspection):
    """Reads rows, logs, transactions and documents in one read transaction, and each shard in its own."""

    def __init__(self, store: LmdbStore, txn: Any) -> None:
        self._store, self._txn, self._databases = store, txn, store.environment.databases

    def documents(self) -> list[tuple[str, bytes]]:
        stored = scan_prefix(self._txn, self._databases["documents"], b"")
        return [(key.decode(errors="replace"), value) for key, value in stored]

    def transactions(self) -> Iterator[tuple[int, bytes]]:
        """The notes of transactions, each with its transaction number."""
        for key, value in scan_prefix(self._txn, self._databases["transactions"], b""):
            yield int.from_bytes(key), value

    def log(self, node: int) -> Iterator[tuple[int, bytes]]:
        """The entries of a node's log, each with its offset."""
        for key, value in scan_prefix(self._txn, self._databases["log"], struct.pack(">H", node)):
            yield log_entries.decode_log_key(key)[1], value

    def transaction_faults(self, committed: Cut) -> tuple[list[str], tuple[int, ...] | None]:
        faults: list[str] = []
        last, last_ends = committed.transaction, committed.offsets
        previous: tuple[int, tuple[int, ...]] | None = None
        note_size = len(log_entries.encode_note(0.0, 0, committed.offsets))
        for number, value in self.transactions():
            if len(value) != note_size:
                faults.append(f"transaction {number}: note has {len(value)} bytes instead of {note_size}")
                previous = None
                continue
            _, operations, ends = log_entries.decode_note(value)
            if operations != sum(ends) or (previous and any(a < b for a, b in zip(ends, previous[1], strict=True))):
                faults.append(f"transaction {number}: inconsistent log ends")
            elif previous and number != previous[0] + 1:
                faults.append(f"transaction {number} follows transaction {previous[0]}: gap in the numbers")
            elif number == committed.transaction and ends != committed.offsets:
                faults.append(f"transaction {number}: log ends differ from the committed cut")
            previous = number, ends
            last, last_ends = number, ends
        if not faults and last < committed.transaction:
            faults.append(f"transactions {last + 1} to {committed.transaction} are missing, but committed")
        return faults, None if faults else last_ends

    def log_faults(
        self, node: int, start: int, end: int | None, tables: Mapping[int, TableDef]
    ) -> Iterator[tuple[int, str]]:
        expected: int | None = None
        is_empty = True
        for offset, value in self.log(node):
            if is_empty and offset > start:
                yield start, f"entries up to offset {offset} are missing"
            elif expected is not None and offset != expected:
                yield expected, f"entries up to offset {offset} are missing"
            is_empty = False
            try:
                entry = log_entries.decode(node, offset, value)
                if entry.table in tables:
                    log_entries.decode_rows(entry, self._store.as_stored(self._txn, tables[entry.table])).validate(
                        full=True
                    )
                expected = offset + entry.operations
            except UNREADABLE as error:
                yield offset, explain(error)
                expected = None
        if is_empty:
            expected = start
        if end is not None and expected is not None and expected != end:
            yield expected, f"entries up to offset {end} are missing"

    def audit_rows(self, table: TableDef) -> RowAudit:
        faults: list[str] = []
        count, table = 0, self._store.as_stored(self._txn, table)
        for node in range(self._store.nodes):
            prefix, batch = row_prefix(table, node), list[tuple[bytes, bytes]]()
            for key, value in scan_prefix(self._txn, self._databases["rows"], prefix):
                batch.append((key[len(prefix) :], value))
                if len(batch) == BATCH_ROWS:
                    faults += self._row_faults(table, node, batch)
                    count, batch = count + len(batch), []
            faults += self._row_faults(table, node, batch)
            count += len(batch)
        counted = self._txn.get(ROW_COUNTS.at(table.id).encode(), db=self._databases["documents"])
        return RowAudit(faults, count, int(counted or 0))

    def _row_faults(self, table: TableDef, node: int, batch: list[tuple[bytes, bytes]]) -> list[str]:
        """Rows of a node that are unreadable, or stored under a wrong key or on a wrong node.

        If the batch cannot be decoded, checks each half by itself, down to the unreadable rows.
        """
        if not batch:
            return []
        try:
            rows = table.rows.decode(self._store.unpack_rows(self._txn, table, [value for _, value in batch]))
            rows.validate(full=True)
            columns = table.key_columns(rows)
            keys = self._store.key_limit.shorten(table.keys.encode(columns, len(batch))).to_pylist()
            nodes = hash_buckets(columns, self._store.nodes, len(batch))
        except UNREADABLE as error:
            if len(batch) == 1:
                return [f"row under key 0x{batch[0][0].hex()}: {explain(error)}"]
            half = len(batch) // 2
            return self._row_faults(table, node, batch[:half]) + self._row_faults(table, node, batch[half:])
        wrong_keys = {i for i, (key, _) in enumerate(batch) if key != keys[i]}
        misplaced = wrong_keys | set(np.flatnonzero(nodes != node).tolist())
        return [f"row under key 0x{batch[i][0].hex()}: stored under a wrong key or on a wrong node" for i in misplaced]

    def states(self, shard: int) -> list[StateRecord]:
        opened = self._store.shard(shard)
        data, undo, marks = (opened.environment.databases[n] for n in ("data", "undo", "marks"))
        with opened.environment.read() as txn:
            with_entries = set(states_in(txn, data, self._store.settings.form))
            numbers = sorted(with_entries | set(states_in(txn, undo)) | set(states_in(txn, marks)))
            return [_read_record(txn, opened, state, state in with_entries) for state in numbers]

    def lost_shard_advice(self, shard: int) -> str:
        return f"Close the store in all processes and remove its directory shards/{shard:03d}"


def _read_record(txn: Any, shard: LmdbShard, state: int, has_entries: bool) -> StateRecord:
    undo, marks = (shard.environment.databases[n] for n in ("undo", "marks"))
    value = txn.get(state_prefix(state), db=marks)
    with txn.cursor(undo) as cursor:
        undos = tuple(undo_epochs(cursor, state, 0, LAST_EPOCH))
    damaged = {epoch: reason for epoch in undos if (reason := _undo_fault(txn, shard, state, epoch))}
    return StateRecord(state, has_entries, value is not None, decode_mark(value), undos, damaged)


def _undo_fault(txn: Any, shard: LmdbShard, state: int, epoch: int) -> str | None:
    """Why an undo record is unusable; None if it is complete and its keys are sorted."""
    last: bytes | None = None
    try:
        undo = shard.undo(txn, state, epoch)
        undo.check_complete()
        for key, _ in undo.items():
            if last is not None and key <= last:
                return "keys are out of order"
            last = key
    except UNREADABLE as error:
        return explain(error)
    return None


def explain(error: Exception) -> str:
    """One line about an error raised by damaged bytes."""
    reason = error.data.get("reason") if isinstance(error, TailraceError) else None
    return str(reason or error).partition("\n")[0] or type(error).__name__
