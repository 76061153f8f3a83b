"""The embedded store: one directory, which any number of processes can use at once.

    store.json          format, number of nodes and shards, durability
    base/               rows, logs and documents of all nodes, shapes of rows: one LMDB environment
    shards/000 ...      states: one LMDB environment per shard

All nodes share one environment, so a transaction over several nodes is atomic without a two-phase commit. Each node
still has its own rows and its own log. LMDB allows one writer per environment at a time; separate environments would
hardly write faster on one disk.
"""

from __future__ import annotations

import struct
import time
from bisect import bisect_left
from collections.abc import Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, contextmanager
from itertools import islice, pairwise, takewhile
from pathlib import Path
from typing import Any, TypeVar

import numpy as np
import pyarrow as pa

from tailrace import faults
from tailrace.codec import arrays
from tailrace.codec.keys import prefix_range
from tailrace.codec.layouts import Layout
from tailrace.codec.murmur import hash_buckets
from tailrace.codec.schema import TableDef
from tailrace.codec.sorting import order
from tailrace.delta import WEIGHT
from tailrace.errors import BadPosition, Conflict, Corrupt, Fenced, NoSuchRow, OffsetGap, TableAltered
from tailrace.store import documents, log_entries
from tailrace.store.backups import Backups
from tailrace.store.base import LAYOUTS, ROW_COUNTS, Capability, Change, Cut, Past, Position, Store, Written
from tailrace.store.documents import Changes, Kind
from tailrace.store.inspection import Inspection, Repairs, Sizes
from tailrace.store.key_limit import KeyLimit
from tailrace.store.lmdb.dense import put_sorted
from tailrace.store.lmdb.environment import Environment, acquire, release
from tailrace.store.lmdb.file_locks import held, read_holder
from tailrace.store.lmdb.settings import read_settings
from tailrace.store.lmdb.shapes import Shapes
from tailrace.store.lmdb.shard import DATABASES as SHARD_DATABASES
from tailrace.store.lmdb.shard import LmdbShard, delete_range
from tailrace.store.locks import TERM, Holder, LockName
from tailrace.store.processes import this_machine
from tailrace.store.store_ref import StoreRef

DATABASES = ("rows", "log", "transactions", "documents", "shapes")
_UNPACKED = 4096  # rows that are unpacked at once
_ROW = struct.Struct(">IH")  # prefix of row keys: table, node
_NUMBER = struct.Struct(">Q")  # key of a transaction's note
T = TypeVar("T")
KEY_LIMIT = KeyLimit(whole=480, part=232)  # LMDB keys have at most 511 bytes, including prefixes


def row_prefix(table: TableDef, node: int) -> bytes:
    """The prefix of the keys of a node's rows of a table."""
    return _ROW.pack(table.id, node)


def transaction_key(transaction: int) -> bytes:
    """The key of a transaction's note."""
    return _NUMBER.pack(transaction)


class LmdbStore(Store):
    key_limit = KEY_LIMIT
    hashes_keys = True
    capabilities = frozenset(Capability)

    def __init__(self, path: Path) -> None:
        self.settings = read_settings(path)
        self.path = str(path.resolve())
        self.ref = StoreRef(f"lmdb:{self.path}", this_machine())
        self.nodes, self.shards = self.settings.nodes, self.settings.shards
        self._base = self._open(path / "base", DATABASES)
        self._rows, self._log, self._transactions, self._documents, self._shapes = (
            self._base.databases[n] for n in DATABASES
        )
        self._shards: dict[int, tuple[Environment, LmdbShard]] = {}
        self._layouts: dict[int, tuple[bytes, Layout]] = {}  # by table, as last read
        self._closed = False

    def _open(self, path: Path, names: tuple[str, ...]) -> Environment:
        return acquire(self.path, path, names, self.settings.map_size, self.settings.durable)

    @property
    def environment(self) -> Environment:
        """The LMDB environment of rows, logs and documents, for inspections and repairs."""
        return self._base

    @contextmanager
    def inspect(self) -> Iterator[Inspection]:
        from tailrace.store.lmdb.structure import LmdbInspection

        with self._base.read() as txn:
            yield LmdbInspection(self, txn)

    def sizes(self, tables: Sequence[TableDef]) -> Sizes:
        from tailrace.store.lmdb.extents import measure

        return measure(self, tables)

    def repairs(self) -> Repairs:
        from tailrace.store.lmdb.repairs import LmdbRepairs

        return LmdbRepairs(self)

    def backups(self) -> Backups:
        from tailrace.store.lmdb.packing import LmdbBackups

        return LmdbBackups(self)

    # documents

    def document(self, kind: Kind[T], key: object = "") -> T | None:
        name = kind.at(key)
        with self._base.read() as txn:
            value = txn.get(name.encode(), db=self._documents)
        return None if value is None else kind.decode(name, value, self.nodes)

    def documents(self, kind: Kind[T]) -> dict[str, T]:
        documents = {}
        with self._base.read() as txn:
            for stored, value in scan_prefix(txn, self._documents, kind.name.encode()):
                name = stored.decode(errors="replace")
                documents[name.removeprefix(kind.name)] = kind.decode(name, value, self.nodes)
        return documents

    def change_documents(self, changes: Changes, *, expected: Changes | None = None, term: int | None = None) -> None:
        with self._base.write() as txn:
            for name, document in (expected or {}).items():
                if self._read_document(txn, name) != document:
                    raise Conflict(document=name)
            if term is not None:
                newest = self._read_document(txn, TERM.name)
                if newest is None or newest.number != term:
                    raise Fenced(term=term, newest=0 if newest is None else newest.number)
            for name, document in changes.items():
                if document is None:
                    txn.delete(name.encode(), db=self._documents)
                else:
                    txn.put(name.encode(), documents.encode(document), db=self._documents)

    def _read_document(self, txn: Any, name: str) -> Any:
        """A document, read in a transaction; None if it does not exist."""
        value, kind = txn.get(name.encode(), db=self._documents), documents.kind_of(name)
        return None if value is None or kind is None else kind.decode(name, value, self.nodes)

    # locks

    def lock(self, name: LockName, patience: float = 0.0) -> AbstractContextManager[None]:
        return held(self.path, name, patience)

    def holder(self, name: LockName) -> Holder | None:
        return read_holder(self.path, name)

    # layouts of tables

    def _layout(self, txn: Any, table: TableDef) -> Layout | None:
        """The layout of a table, as of a transaction; None if its columns are stored as they were created."""
        name = LAYOUTS.at(table.id)
        value = txn.get(name.encode(), db=self._documents)
        if value is None:
            return None
        known = self._layouts.get(table.id)
        if known is None or known[0] != value:
            known = self._layouts[table.id] = bytes(value), LAYOUTS.decode(name, bytes(value), self.nodes)
        return known[1]

    def _require_layout(self, txn: Any, table: TableDef) -> None:
        layout = self._layout(txn, table)
        if (0 if layout is None else layout.version) != table.version:
            raise TableAltered(table=table.name)

    def as_stored(self, txn: Any, table: TableDef) -> TableDef:
        """A table with its layout as of a transaction: the rows that the transaction sees can be decoded by it."""
        layout = self._layout(txn, table)
        return table if layout is None or layout == table.layout else table.with_layout(layout)

    # writing

    def write(self, changes: Sequence[Change]) -> Written:
        with self._base.write() as txn:
            number, _, operations, ends = self._last_transaction(txn)
            written = 0
            for change in changes:
                self._require_layout(txn, change.table)
                keys, old_rows, new_rows = self._images(txn, change)
                if keys:
                    self._put_rows(txn, change, keys, new_rows)
                    ends = self._append_log(txn, change.table, number + 1, ends, old_rows, new_rows)
                    self.add_count(txn, change.table, (new_rows.num_rows if new_rows else 0) - old_rows.num_rows)
                    written += len(keys)
            if written:
                note = log_entries.encode_note(time.time(), operations + written, ends)
                txn.put(_NUMBER.pack(number + 1), note, db=self._transactions)
            faults.point("write.commit")
        faults.point("write.committed")
        return Written(number + 1 if written else number, written)

    def _last_transaction(self, txn: Any) -> tuple[int, float, int, tuple[int, ...]]:
        """The number of the last transaction, its time, all operations so far, and the ends of the logs."""
        with txn.cursor(self._transactions) as cursor:
            if not cursor.last():
                return 0, 0.0, 0, (0,) * self.nodes
            written, operations, ends = self._read_note(cursor)
            return _NUMBER.unpack(cursor.key())[0], written, operations, ends

    def _read_note(self, cursor: Any) -> tuple[float, int, tuple[int, ...]]:
        """The note of the transaction at the cursor: its time, all operations so far, and the ends of the logs."""
        note = log_entries.decode_note(cursor.value())
        if len(note[2]) != self.nodes or len(cursor.key()) != _NUMBER.size:
            reason = f"its key or its log ends do not fit a store with {self.nodes} nodes"
            raise Corrupt(where="an entry of the list of transactions", reason=reason)
        return note

    def _images(self, txn: Any, change: Change) -> tuple[list[bytes], pa.RecordBatch, pa.RecordBatch | None]:
        """The keys that change, sorted; the existing rows before the change, and the rows after it (None: deleted).

        Both are stored batches.
        """
        table, rows = change.table, change.rows
        nodes = hash_buckets(table.key_columns(rows), self.nodes, rows.num_rows)
        user_keys = self.key_limit.shorten(table.keys.encode(table.key_columns(rows), rows.num_rows))
        prefixes = pa.array([_ROW.pack(table.id, n) for n in range(self.nodes)], pa.large_binary())
        keys = arrays.join_cells([prefixes.take(pa.array(nodes)), user_keys])
        last = order(keys).lasts  # of several rows with the same key, the last one wins
        sorted_keys = keys.take(pa.array(last)).to_pylist()
        with txn.cursor(self._rows) as cursor:
            entries = cursor.getmulti(sorted_keys)
        found_rows = self.unpack_rows(txn, table, [row for _, row in entries])
        stored = dict(zip([key for key, _ in entries], found_rows, strict=True))
        if change.mode == "delete":
            sorted_keys = [k for k in sorted_keys if k in stored]
        elif change.mode == "remove":
            as_given = table.rows.encode(table.to_stored(rows.take(pa.array(last)))).to_pylist()
            given = dict(zip(sorted_keys, as_given, strict=True))
            existing = [k for k in sorted_keys if k in stored]
            visible = table.to_visible(table.decode([stored[k] for k in existing]))
            found = table.rows.encode(table.to_stored(visible)).to_pylist()
            sorted_keys = [k for k, row in zip(existing, found, strict=True) if row == given[k]]
        elif change.mode == "update" and len(stored) < len(sorted_keys):
            missing = min(i for k, i in zip(sorted_keys, last.tolist(), strict=True) if k not in stored)
            key = tuple(rows.column(k)[missing].as_py() for k in table.key)
            raise NoSuchRow(table=table.name, key=key[0] if len(key) == 1 else key)
        before = table.decode([stored[k] for k in sorted_keys if k in stored])
        if change.mode in ("delete", "remove"):
            return sorted_keys, before, None
        after = rows.take(pa.array(last))
        if change.mode == "update":
            columns = [
                after.column(f.name) if f.name in after.schema.names else before.column(f.name) for f in table.schema
            ]
            after = pa.RecordBatch.from_arrays(columns, schema=table.schema)
        return sorted_keys, before, table.to_stored(after)

    def _put_rows(self, txn: Any, change: Change, keys: list[bytes], after: pa.RecordBatch | None) -> None:
        if after is None:
            for key in keys:
                txn.delete(key, db=self._rows)
            return
        rows = change.table.rows.encode(after)
        if self.settings.form.short:
            rows = Shapes(txn, self._shapes, change.table.id, zeros=False).pack(rows)
        entries = zip(keys, rows.to_pylist(), strict=True)
        bounds = [bisect_left(keys, _ROW.pack(change.table.id, node)) for node in range(1, self.nodes)]
        for start, end in pairwise([0, *bounds, len(keys)]):
            if start < end:
                part = islice(entries, end - start)
                put_sorted(txn, self._rows, keys[start], keys[end - 1], part, end - start)

    def unpack_rows(self, txn: Any, table: TableDef, stored: Sequence[bytes]) -> Sequence[bytes]:
        """Rows of a table as they were before they were stored. Rows are packed by shapes, as values of states are."""
        if not stored or not self.settings.form.short:
            return stored
        return Shapes(txn, self._shapes, table.id, zeros=False).unpack(stored)

    def _append_log(
        self,
        txn: Any,
        table: TableDef,
        number: int,
        ends: tuple[int, ...],
        before: pa.RecordBatch,
        after: pa.RecordBatch | None,
    ) -> tuple[int, ...]:
        """Appends one log entry per node with changed rows. Returns the new ends of the logs."""
        images = log_entries.build_delta(table, before, after if after is not None else before.slice(0, 0))
        rows = pa.RecordBatch.from_arrays(images.columns[:-1], schema=table.stored_schema)
        nodes = hash_buckets(table.key_columns(rows), self.nodes, rows.num_rows)
        nodes_of_operations = nodes[: before.num_rows] if after is None else nodes[before.num_rows :]
        operations = np.bincount(nodes_of_operations, minlength=self.nodes)
        new_ends = list(ends)
        for node in np.flatnonzero(operations).tolist():
            part = images if self.nodes == 1 else images.take(pa.array(np.flatnonzero(nodes == node)))
            entry = log_entries.encode(table, int(operations[node]), number, part)
            txn.put(log_entries.log_key(node, new_ends[node]), entry, db=self._log)
            new_ends[node] += int(operations[node])
        return tuple(new_ends)

    # reading tables

    def get(self, table: TableDef, keys: Sequence[bytes], past: Past | None = None) -> dict[bytes, bytes]:
        rows: dict[bytes, bytes] = {}
        with self._base.read() as txn, txn.cursor(self._rows) as cursor:
            if past is not None:
                self._catch_up(txn, table, past)
            for node in range(self.nodes):
                prefix = _ROW.pack(table.id, node)
                entries = cursor.getmulti([prefix + k for k in keys])
                found_rows = self.unpack_rows(txn, table, [row for _, row in entries])
                rows.update(zip([key[6:] for key, _ in entries], found_rows, strict=True))
        if past is not None:
            past_rows = {k: past.rows[k] for k in keys if k in past.rows}
            return {k: row for k, row in {**rows, **past_rows}.items() if row is not None}
        return rows

    def _catch_up(self, txn: Any, table: TableDef, past: Past) -> None:
        """Adds the changes logged since the last read. The first change of a key has its row at the cut."""
        ends, table = self._last_transaction(txn)[3], self.as_stored(txn, table)
        for node, end in enumerate(ends):
            later = list(self._table_entries(txn, table, node, past.ends[node], end))
            for key, row in log_entries.rows_before(later, table).items():
                past.rows.setdefault(self.key_limit.shorten_one(key), row)
            past.ends[node] = end

    def count(self, table: TableDef) -> int:
        with self._base.read() as txn:
            return self._count(txn, table)

    def _count(self, txn: Any, table: TableDef) -> int:
        name = ROW_COUNTS.at(table.id)
        value = txn.get(name.encode(), db=self._documents)
        return ROW_COUNTS.decode(name, value, self.nodes) if value else 0

    def add_count(self, txn: Any, table: TableDef, more: int) -> None:
        if more:
            count = str(self._count(txn, table) + more)
            txn.put(ROW_COUNTS.at(table.id).encode(), count.encode(), db=self._documents)

    def rows(
        self,
        table: TableDef,
        node: int,
        cut: Cut | None,
        columns: Sequence[int],
        size: int = 50_000,
        *,
        after: bytes = b"",
        upto: bytes | None = None,
    ) -> Iterator[pa.RecordBatch]:
        with self._base.read() as txn:
            overlay: dict[bytes, bytes | None] = {}
            now = self.as_stored(txn, table)
            chosen, names = list(columns), [table.stored[p].name for p in columns]
            if cut is not None:
                # Read to the end of the log even for few keys: if it was trimmed after the cut, OffsetGap is raised.
                newest = self._last_transaction(txn)[3][node]
                later = list(self._table_entries(txn, now, node, cut.offsets[node], newest))
                old_rows = (
                    (self.key_limit.shorten_one(k), row) for k, row in log_entries.rows_before(later, now).items()
                )
                overlay = {k: row for k, row in old_rows if k > after and (upto is None or k <= upto)}
            run: list[bytes] = []
            for key, value in self._rows_after(txn, table, node, after):
                if upto is not None and key > upto:
                    break
                row: bytes | None = overlay.pop(key, value) if overlay else value
                if row is not None:
                    run.append(row)
                if len(run) == size:
                    yield now.decode(run).select(chosen).rename_columns(names)
                    run = []
            run.extend(row for row in overlay.values() if row is not None)
            if run:
                yield now.decode(run).select(chosen).rename_columns(names)

    def step(self, table: TableDef, node: int, after: bytes, count: int, size: int) -> tuple[bytes | None, int]:
        rows, total, last = 0, 0, after
        with self._base.read() as txn:
            for key, row in self._rows_after(txn, table, node, after):
                total += len(row)
                if rows == count or (rows and total > size):
                    return last, rows
                rows, last = rows + 1, key
        return None, rows

    def _rows_after(self, txn: Any, table: TableDef, node: int, after: bytes) -> Iterator[tuple[bytes, bytes]]:
        """A node's encoded keys and rows of a table, from the first key greater than `after`."""
        prefix = _ROW.pack(table.id, node)
        _, high = prefix_range(prefix)
        with txn.cursor(self._rows) as cursor:
            more = cursor.set_range(prefix + after)
            if more and after and cursor.key() == prefix + after:
                more = cursor.next()
            entries = cursor.iternext() if more else iter(())
            in_range = entries if high is None else takewhile(lambda entry: entry[0] < high, entries)
            while run := list(islice(in_range, _UNPACKED)):
                rows = self.unpack_rows(txn, table, [row for _, row in run])
                yield from zip([key[6:] for key, _ in run], rows, strict=True)

    # reading logs

    def deltas(
        self, table: TableDef, node: int, start: Cut, end: Cut, columns: Sequence[int], size: int = 200_000
    ) -> Iterator[pa.RecordBatch]:
        with self._base.read() as txn:
            now = self.as_stored(txn, table)
            columns_and_weight = [*columns, len(now.stored)]
            run: list[pa.RecordBatch] = []
            run_rows = 0
            for batch in self._table_entries(txn, now, node, start.offsets[node], end.offsets[node]):
                run.append(batch.select(columns_and_weight))
                run_rows += batch.num_rows
                if run_rows >= size:
                    yield pa.concat_batches(run)
                    run, run_rows = [], 0
            if run:
                yield pa.concat_batches(run)

    def history(
        self, tables: Mapping[int, TableDef], node: int, start: Cut, end: Cut
    ) -> Iterator[tuple[Position, TableDef, pa.RecordBatch]]:
        with self._base.read() as txn:
            for entry in self._read_log(txn, node, start.offsets[node], end.offsets[node]):
                if entry.table in tables:
                    table = tables[entry.table]
                    stored = log_entries.decode_rows(entry, self.as_stored(txn, table))
                    changed = table.to_visible(stored.select(list(range(stored.num_columns - 1))))
                    yield Position(entry.transaction), table, changed.append_column(WEIGHT, stored.column(WEIGHT))

    def _table_entries(self, txn: Any, table: TableDef, node: int, start: int, end: int) -> Iterator[pa.RecordBatch]:
        """The deltas of one table in [start, end) of a node's log."""
        for entry in self._read_log(txn, node, start, end):
            if entry.table == table.id:
                yield log_entries.decode_rows(entry, table)

    def _read_log(
        self, txn: Any, node: int, start: int, end: int, *, checked: bool = True
    ) -> Iterator[log_entries.Entry]:
        """All entries in [start, end) of a node's log. Verifies checksums if `checked`; raises `OffsetGap` at a gap."""
        expected = start
        with txn.cursor(self._log) as cursor:
            more = cursor.set_range(log_entries.log_key(node, start))
            while more:
                key_node, offset = log_entries.decode_log_key(cursor.key())
                if key_node != node or offset >= end:
                    break
                if offset != expected:
                    raise OffsetGap(node=node, expected=expected, found=offset)
                entry = log_entries.decode(node, offset, cursor.value(), checked=checked)
                yield entry
                expected = offset + entry.operations
                more = cursor.next()
        if expected != end:
            raise OffsetGap(node=node, expected=end, found=expected)

    def touched(self, start: Cut, end: Cut, *, checked: bool = True) -> dict[int, int]:
        counts: dict[int, int] = {}
        try:
            with self._base.read(views=not checked) as txn:
                for node in range(self.nodes):
                    for entry in self._read_log(txn, node, start.offsets[node], end.offsets[node], checked=checked):
                        counts[entry.table] = counts.get(entry.table, 0) + entry.operations
        except (OffsetGap, Corrupt):
            if checked:
                raise
            return self.touched(start, end)  # its error names the damaged entry
        return counts

    def catch_up(self) -> None:
        """Nothing to do: a write and its log entries are one transaction."""

    def advance(self) -> None:
        """Nothing to do, as for `catch_up`."""

    def newest_cut(self) -> Cut:
        with self._base.read() as txn:
            number, _, _, ends = self._last_transaction(txn)
        return Cut(number, ends)

    def cut_after(self, cut: Cut, operations: int) -> Cut:
        with self._base.read() as txn, txn.cursor(self._transactions) as cursor:
            newest, _, total, ends = self._last_transaction(txn)
            if newest <= cut.transaction or total - cut.operations <= operations:
                return Cut(newest, ends) if newest > cut.transaction else cut
            low, high = cut.transaction + 1, newest  # bisect: the number of operations grows with each transaction
            while low < high:
                middle = (low + high + 1) // 2
                cursor.set_key(_NUMBER.pack(middle))
                if self._read_note(cursor)[1] - cut.operations <= operations:
                    low = middle
                else:
                    high = middle - 1
            cursor.set_key(_NUMBER.pack(low))
            return Cut(low, self._read_note(cursor)[2])

    def position(self, given: Position | Written | int) -> Position:
        position = given.position if isinstance(given, Written) else given
        number = position.number if isinstance(position, Position) else position
        newest = self.newest_cut().transaction
        if not isinstance(number, int) or not 0 <= number <= newest:
            raise BadPosition(position=number, newest=newest)
        return Position(number)

    def written_after(self, cut: Cut) -> float | None:
        with self._base.read() as txn:
            note = txn.get(_NUMBER.pack(cut.transaction + 1), db=self._transactions)
        return log_entries.decode_note(note)[0] if note else None

    def trim(self, cut: Cut) -> None:
        for node, offset in enumerate(cut.offsets):
            delete_range(
                self._base, self._log, log_entries.log_key(node, 0), log_entries.log_key(node, offset), size=2_000
            )
        faults.point("log.trim")
        delete_range(self._base, self._transactions, _NUMBER.pack(0), _NUMBER.pack(cut.transaction), size=20_000)
        self._base.handle.reader_check()  # else killed readers keep LMDB from reusing freed pages

    def drop_rows(self, table: int) -> None:
        for db in (self._rows, self._shapes):
            delete_range(self._base, db, *prefix_range(struct.pack(">I", table)))
        self.change_documents({ROW_COUNTS.at(table): None})

    # shards and closing

    def shard(self, index: int) -> LmdbShard:
        if index not in self._shards:
            environment = self._open(Path(self.path) / "shards" / f"{index:03d}", SHARD_DATABASES)
            self._shards[index] = (environment, LmdbShard(environment, self.settings.form))
        return self._shards[index][1]

    def sync(self) -> None:
        if self.settings.durable:
            return
        for index in range(self.shards):
            self.shard(index)
        for environment in [self._base, *(e for e, _ in self._shards.values())]:
            environment.handle.sync(True)

    def close(self) -> None:
        if self._closed:
            return
        self._closed = True
        for environment in [self._base, *(e for e, _ in self._shards.values())]:
            release(environment)


def scan_prefix(txn: Any, db: Any, prefix: bytes) -> Iterator[tuple[bytes, bytes]]:
    low, high = prefix_range(prefix)
    with txn.cursor(db) as cursor:
        if cursor.set_range(low):
            for key, value in cursor.iternext():
                if high is not None and key >= high:
                    return
                yield key, value
