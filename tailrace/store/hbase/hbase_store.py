"""The store on HBase: tables are ordinary tables of HBase, which any client of HBase writes.

    any client ──► table ──► log of HBase ──► replication endpoint ──► ns:wal, ns:marks
                                                   resolver ──► ns:log, ns:rows (images), transaction n
                                                   epochs   ──► ns:state

A read without a cut reads the tables of HBase; a read at a cut reads the images. A write is atomic for each row, and is
part of a transaction when the resolver has taken it in: `catch_up` waits for that.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import AbstractContextManager, contextmanager, suppress
from typing import Any, TypeVar

import numpy as np
import pyarrow as pa
from msgspec import structs

from tailrace import faults
from tailrace.codec.arrays import LARGE_BINARY, Vector
from tailrace.codec.key_reading import decode_keys
from tailrace.codec.layouts import Layout
from tailrace.codec.murmur import hash_buckets
from tailrace.codec.schema import TableDef
from tailrace.delta import WEIGHT
from tailrace.errors import (
    BadCell,
    BadPosition,
    Conflict,
    EpochsLocked,
    NotAStore,
    OffsetGap,
    SqlError,
    TableAltered,
    UnknownName,
)
from tailrace.store import log_entries
from tailrace.store.administration import AdministrativeEvent, Stalled
from tailrace.store.base import LAYOUTS, ROW_COUNTS, Capability, Change, Cut, Past, Position, Store, Written
from tailrace.store.documents import Changes, Kind
from tailrace.store.hbase.admin import Admin, Family
from tailrace.store.hbase.background_trimming import BackgroundTrimmer
from tailrace.store.hbase.client import Client
from tailrace.store.hbase.hbase_shard import HbaseShard
from tailrace.store.hbase.images import BAD_KEY, Gone, Images, image_prefix
from tailrace.store.hbase.mapping import MAPPINGS, MappedTable, TableMapping, grown, unescape
from tailrace.store.hbase.meta import Documents
from tailrace.store.hbase.namespace import STATES, read_settings
from tailrace.store.hbase.placement import PLACEMENT
from tailrace.store.hbase.resolved_log import ReadEntry, ResolvedLog
from tailrace.store.hbase.resolver import Resolver
from tailrace.store.hbase.resolving import BadRow
from tailrace.store.hbase.rounds import STALLED_REGIONS
from tailrace.store.hbase.row_locks import RowLocks
from tailrace.store.hbase.table_options import create_mapping, table_options
from tailrace.store.hbase.tail import ROUND, TRIMMED, WANTED, Tail
from tailrace.store.hbase.tracking import Tracking
from tailrace.store.hbase.user_tables import UserTable
from tailrace.store.inspection import Inspection, Repairs
from tailrace.store.key_limit import KeyLimit
from tailrace.store.locks import Holder, LockName
from tailrace.store.store_ref import StoreRef

KEY_LIMIT = KeyLimit(whole=32_000, part=16_000)  # rows of HBase have at most 32,767 bytes, including prefixes
READERS = 4  # shards that a task reads at a time
FORGETTING = 5.0  # seconds that a trim waits for a process that resolves
MOST_GONE = 1_000_000  # deleted rows that wait until their images are deleted, at most; the images of others stay
T = TypeVar("T")
R = TypeVar("R")


def parse_location(ref: StoreRef) -> tuple[str, int, str]:
    """Host, port and namespace of `hbase://host:port/namespace`. Raises `NotAStore` for another form."""
    address, _, namespace = ref.location.partition("#")[0].removeprefix("//").partition("/")
    host, _, port = address.rpartition(":")
    if not ref.location.startswith("//") or not host or not port.isdigit() or not namespace.isidentifier():
        raise NotAStore(path=ref.url, reason="write hbase://host:port/namespace, with the port of a Thrift2 server")
    return host, int(port), namespace


def state_table(ref: StoreRef) -> str:
    """The table of the states: `state`, or that of a scratch store, which the fragment of the URL names."""
    return ref.location.partition("#")[2] or STATES


class HbaseStore(Store):
    key_limit = KEY_LIMIT
    hashes_keys = True
    capabilities = frozenset({Capability.INSPECTION, Capability.REPAIR})

    def __init__(self, ref: StoreRef) -> None:
        host, port, self.namespace = parse_location(ref)
        self.ref, self.path = ref, ref.url
        self.client = Client(host, port)
        try:
            settings = read_settings(self.client, self.namespace)
        except BaseException:
            self.client.close()
            raise
        self.nodes, self.shards = settings.nodes, settings.shards
        self._admin = Admin(self.client)
        meta = self.client.table(f"{self.namespace}:meta", b"d")
        self._documents, self._locks = Documents(meta, self.nodes), RowLocks(meta, self.path)
        self._tracking = Tracking(self.client, self.namespace)
        self.images = Images(self.client.table(f"{self.namespace}:rows", b"r"))
        self.log = ResolvedLog(self.client.table(f"{self.namespace}:log", b"l"))
        self._shards: dict[int, HbaseShard] = {}
        self._readers: ThreadPoolExecutor | None = None
        self._guard = threading.Lock()
        self._state_table = state_table(ref)
        self._trimmer = BackgroundTrimmer(self.trim)
        self._gone: list[Gone] = []  # deleted rows whose images are still there
        self.resolver = Resolver(self.client, self.namespace, self._documents, self._locks, self.nodes, self.key_limit)

    # documents and locks

    def document(self, kind: Kind[T], key: object = "") -> T | None:
        return self._documents.document(kind, key)

    def documents(self, kind: Kind[T]) -> dict[str, T]:
        return self._documents.documents(kind)

    def change_documents(self, changes: Changes, *, expected: Changes | None = None, term: int | None = None) -> None:
        self._documents.change_documents(changes, expected=expected, term=term)

    def reading_once(
        self, kinds: Sequence[Kind[Any]], while_none: Sequence[Kind[Any]] = ()
    ) -> AbstractContextManager[None]:
        return self._documents.reading_once(kinds, while_none)

    def lock(self, name: LockName, patience: float = 0.0) -> AbstractContextManager[None]:
        return self._locks.held(name, patience)

    def holder(self, name: LockName) -> Holder | None:
        return self._locks.holder(name)

    # audits

    def raw_documents(self, names: Sequence[str] | None = None) -> dict[bytes, bytes]:
        """Documents as of one moment, undecoded: those with these names, or all."""
        return self._documents.raw(names)

    @contextmanager
    def inspect(self) -> Iterator[Inspection]:
        from tailrace.store.hbase.hbase_inspection import HbaseInspection

        yield HbaseInspection(self)

    def repairs(self) -> Repairs:
        from tailrace.store.hbase.hbase_repairs import HbaseRepairs

        return HbaseRepairs(self)

    # tailing

    def catch_up(self) -> None:
        self.resolver.catch_up()

    def advance(self) -> None:
        self.resolver.advance()

    def administrative_events(self) -> Sequence[AdministrativeEvent]:
        placement = self._documents.document(PLACEMENT)
        return () if placement is None else placement.events

    def stalled(self) -> Sequence[Stalled]:
        found = self._documents.document(STALLED_REGIONS)
        return () if found is None else found.regions

    # definitions of tables

    def new_table(self, table: TableDef, options: Mapping[str, str]) -> Changes:
        mapping = create_mapping(self._admin, self.namespace, table, options)
        if mapping.own:
            space = mapping.table.rpartition(":")[0]
            if space == f"{self.namespace}_data":
                self._admin.create_namespace(space)
            elif space and not self._admin.namespace_exists(space):
                advice = "Check the name in hbase.table, or create the namespace in HBase first"
                raise SqlError(message=f"HBase has no namespace {space!r} for the table {mapping.table}. {advice}")
            self._admin.create_table(mapping.table, [Family(unescape(f), 1, 1) for f in mapping.families])
        self._tracking.replicate(mapping)
        return {MAPPINGS.at(table.id): mapping}

    def altered_table(self, table: TableDef) -> tuple[Changes, Changes]:
        mapping = self._mapping(table)
        new = grown(mapping, table)
        if new != mapping and not mapping.own:
            new = structs.replace(new, attached=False)  # other clients may have put cells of the new columns
        name = MAPPINGS.at(table.id)
        return {name: new}, {name: mapping}

    def table_options(self, table: TableDef) -> dict[str, str]:
        return table_options(self._mapping(table), table)

    def _mapping(self, table: TableDef) -> TableMapping:
        mapping = self._documents.document(MAPPINGS, table.id)
        if mapping is None:
            raise UnknownName(kind="table", name=table.name, hint=" any more: it was dropped")
        return mapping

    def _layout(self, table: TableDef) -> Layout | None:
        return self._documents.document(LAYOUTS, table.id)

    def as_stored(self, table: TableDef) -> TableDef:
        """A table with its layout as it is now."""
        layout = self._layout(table)
        return table if layout is None or layout == table.layout else table.with_layout(layout)

    def user_table(self, table: TableDef) -> UserTable:
        """The table of HBase of a table, by the layout that it is given with."""
        return UserTable(self.client, MappedTable(self._mapping(table), table))

    # writing

    def write(self, changes: Sequence[Change]) -> Written:
        if len({change.table.id for change in changes}) > 1:
            self.require(Capability.TRANSACTIONS)
        written = 0
        for change in changes:
            layout = self._layout(change.table)
            if (0 if layout is None else layout.version) != change.table.version:
                raise TableAltered(table=change.table.name)
        faults.point("write.commit")
        for change in changes:
            if change.rows.num_rows:
                written += self.user_table(change.table).write(change)
        faults.point("write.committed")
        tail = self._tail()
        return Written((tail.begun + 1) * ROUND if written else tail.transaction, written)

    def _tail(self) -> Tail:
        return self.resolver.tail

    # reading tables

    def get(self, table: TableDef, keys: Sequence[bytes], past: Past | None = None) -> dict[bytes, bytes]:
        if past is not None:
            return self._get_past(self.as_stored(table), keys, past.cut)
        user = self.user_table(self.as_stored(table))
        rows = user.mapped.rows_of_keys(keys)
        found = [(key, row, cells) for key, row, cells in zip(keys, rows, user.get(rows), strict=True) if cells]
        batch = user.mapped.decode_rows([(row, cells) for _, row, cells in found])
        packed = user.mapped.table.rows.encode(batch).to_pylist()
        return {key: row for (key, _, _), row in zip(found, packed, strict=True)}

    def _get_past(self, table: TableDef, keys: Sequence[bytes], cut: Cut) -> dict[bytes, bytes]:
        nodes = self._nodes_of(table, keys)
        whole = [image_prefix(table.id, node) + key for node, key in zip(nodes.tolist(), keys, strict=True)]
        images = self.images.read(whole, cut.transaction)
        self._require_readable(cut)
        rows = {}
        for key, image in zip(keys, images, strict=True):
            if image is not None and image.bad:
                column, reason = next(iter(image.bad.items()))
                raise BadCell(table=self._mapping(table).table, row=key.hex(), column=column, reason=reason)
            if image is not None and image.row is not None:
                rows[key] = image.row
        return rows

    def _nodes_of(self, table: TableDef, keys: Sequence[bytes]) -> Vector:
        columns, _ = decode_keys(table.keys.types, pa.array(keys, LARGE_BINARY))
        return hash_buckets(columns, self.nodes, len(keys))

    def _require_readable(self, cut: Cut) -> None:
        """Raises `OffsetGap` if images at a cut may be trimmed. To be called after they were read."""
        if cut.transaction < (self._documents.document(TRIMMED) or 0):
            raise OffsetGap(node=0, expected=cut.offsets[0], found=self._tail().ends[0])

    def count(self, table: TableDef) -> int:
        return self._documents.document(ROW_COUNTS, table.id) or 0

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
        names = [table.stored[p].name for p in columns]
        now = self.as_stored(table)
        batches = self._newest(now, node, after, upto) if cut is None else self._at_cut(now, node, cut, after, upto)
        run: list[pa.RecordBatch] = []
        for batch in batches:
            run.append(batch.select(list(columns)).rename_columns(names))
            if sum(b.num_rows for b in run) >= size:
                yield pa.concat_batches(run)
                run = []
        if run:
            yield pa.concat_batches(run)

    def _newest(self, table: TableDef, node: int, after: bytes, upto: bytes | None) -> Iterator[pa.RecordBatch]:
        """A node's rows in the table of HBase itself."""
        user = self.user_table(table)
        for page in user.scan():
            batch = user.mapped.decode_rows(page)
            wanted = hash_buckets(table.key_columns(batch), self.nodes, batch.num_rows) == node
            if after or upto is not None:
                keys = table.keys.encode(table.key_columns(batch), batch.num_rows).to_pylist()
                wanted &= np.array([key > after and (upto is None or key <= upto) for key in keys], bool)
            if wanted.any():
                yield batch.filter(pa.array(wanted))

    def _at_cut(
        self, table: TableDef, node: int, cut: Cut, after: bytes, upto: bytes | None
    ) -> Iterator[pa.RecordBatch]:
        """A node's rows at a cut, from the images."""
        for page in self.images.scan(image_prefix(table.id, node), cut.transaction, after, upto):
            self._require_readable(cut)
            for key, _, bad in page:
                if bad:
                    raise self._bad_image(table, key, bad)
            if page:
                yield table.decode([row for _, row, _ in page])

    def _bad_image(self, table: TableDef, key: bytes, bad: Mapping[str, str]) -> BadCell:
        mapped = MappedTable(self._mapping(table), table)
        row = key.removeprefix(BAD_KEY) if key.startswith(BAD_KEY) else mapped.rows_of_keys([key])[0]
        column, reason = next(iter(bad.items()))
        return mapped.bad_cell(row, unescape(column), reason)

    def step(self, table: TableDef, node: int, after: bytes, count: int, size: int) -> tuple[bytes | None, int]:
        rows, total, last = 0, 0, after
        for page in self.images.scan(image_prefix(table.id, node), self._tail().transaction, after):
            for key, row, _ in page:
                total += len(row)
                if rows == count or (rows and total > size):
                    return last, rows
                rows, last = rows + 1, key
        return None, rows

    # reading logs

    def deltas(
        self, table: TableDef, node: int, start: Cut, end: Cut, columns: Sequence[int], size: int = 200_000
    ) -> Iterator[pa.RecordBatch]:
        names = [*(table.stored[p].name for p in columns), WEIGHT]
        run: list[pa.RecordBatch] = []
        bad: dict[bytes, BadRow] = {}
        for read in self._table_entries(table, node, start, end):
            _follow_bad(read, bad)
            if read.entry.columns > len(table.stored):
                table = self.as_stored(table)  # columns were added after the caller has read its layout
            batch = log_entries.decode_rows(read.entry, table)
            run.append(batch.select([*columns, len(table.stored)]).rename_columns(names))
            if sum(batch.num_rows for batch in run) >= size:
                yield pa.concat_batches(run)
                run = []
        for row in bad.values():
            raise BadCell(table=self._mapping(table).table, row=row.row, column=row.column, reason=row.reason)
        if run:
            yield pa.concat_batches(run)

    def history(
        self, tables: Mapping[int, TableDef], node: int, start: Cut, end: Cut
    ) -> Iterator[tuple[Position, TableDef, pa.RecordBatch]]:
        stored = {number: self.as_stored(table) for number, table in tables.items()}
        for read in self.log.read(node, start.offsets[node], end.offsets[node]):
            entry = read.entry
            if entry.table in tables:
                table, batch = tables[entry.table], log_entries.decode_rows(entry, stored[entry.table])
                changed = table.to_visible(batch.select(list(range(batch.num_columns - 1))))
                yield Position(entry.transaction), table, changed.append_column(WEIGHT, batch.column(WEIGHT))

    def _table_entries(self, table: TableDef, node: int, start: Cut, end: Cut) -> Iterator[ReadEntry]:
        entries = self.log.read(node, start.offsets[node], end.offsets[node])
        return (read for read in entries if read.entry.table == table.id)

    def touched(self, start: Cut, end: Cut, *, checked: bool = True) -> dict[int, int]:
        counts: dict[int, int] = {}
        for node in range(self.nodes):
            for read in self.log.read(node, start.offsets[node], end.offsets[node], checked=checked):
                counts[read.entry.table] = counts.get(read.entry.table, 0) + read.entry.operations
        return counts

    def newest_cut(self) -> Cut:
        tail = self._tail()
        return Cut(tail.transaction, tail.ends)

    def cut_after(self, cut: Cut, operations: int) -> Cut:
        best, newest = cut, self.newest_cut()
        for note in self.log.notes_after(cut.transaction):
            is_too_large = note.operations - cut.operations > operations and note.operations > best.operations
            if note.transaction > newest.transaction or (is_too_large and best.operations > cut.operations):
                break
            best = Cut(note.transaction, note.ends)
        return best

    def position(self, given: Position | Written | int) -> Position:
        position = given.position if isinstance(given, Written) else given
        number = position.number if isinstance(position, Position) else position
        tail = self._tail()
        if not isinstance(number, int) or not number >= 0:
            raise BadPosition(position=number, newest=tail.transaction)
        if number > tail.transaction:
            if number % ROUND or number // ROUND > tail.begun + 1:
                raise BadPosition(position=number, newest=tail.transaction)
            self._want(number)
        return Position(number)

    def _want(self, number: int) -> None:
        """Asks the process that resolves for a round, so that a position becomes covered."""
        wanted = self._documents.document(WANTED)
        while (wanted or 0) < number:
            try:
                self._documents.change_documents({WANTED.name: number}, expected={WANTED.name: wanted})
                return
            except Conflict:
                wanted = self._documents.document(WANTED)

    def written_after(self, cut: Cut) -> float | None:
        newest = self.newest_cut()
        for note in self.log.notes_after(cut.transaction):
            if note.transaction > newest.transaction:
                return None
            if note.operations > cut.operations:
                return note.written
        return None

    # trimming and dropping

    def trim(self, cut: Cut) -> None:
        while cut.transaction > ((trimmed := self._documents.document(TRIMMED)) or 0):
            with suppress(Conflict):
                self._documents.change_documents({TRIMMED.name: cut.transaction}, expected={TRIMMED.name: trimmed})
        self._forget(self.images.trim(self.log.images_upto(cut.transaction)))
        for node, end in enumerate(cut.offsets):
            self.log.trim(node, end)
        faults.point("log.trim")
        self.log.trim_notes(cut.transaction)

    def trim_soon(self, cut: Cut) -> None:
        self._trimmer.request(cut)

    def finish_trimming(self) -> None:
        self._trimmer.finish()

    def _forget(self, gone: Sequence[Gone]) -> None:
        """Deletes the images of deleted rows, and raises the horizons of their tables above the deletions.

        A deletion waits until everything that was written before it is resolved: else puts that are still to come would
        be doubtful. If another process resolves just now, all wait for the next time.
        """
        self._gone = [*self._gone, *gone][-MOST_GONE:]
        settled = self.resolver.settled
        past = [one for one in self._gone if one.deleted < settled]
        if not past:
            return
        with suppress(EpochsLocked):
            with self.resolver.exclusively(FORGETTING):
                for number in {one.table for one in past}:
                    gone_in_table = [one for one in past if one.table == number]
                    self.resolver.raise_horizon(str(number), max(one.deleted for one in gone_in_table))
                    self.images.forget(gone_in_table)
            self._gone = [one for one in self._gone if one.deleted >= settled]

    def drop_rows(self, table: int) -> None:
        mapping = self._documents.document(MAPPINGS, table)
        if mapping is None:
            return
        with self.resolver.exclusively():
            others = [m for key, m in self._documents.documents(MAPPINGS).items() if key != str(table)]
            if all(other.table != mapping.table for other in others):
                self._tracking.untrack(mapping.table)
                if mapping.own:
                    self._admin.drop_table(mapping.table)
            self.images.drop(table, self._tail().transaction + ROUND)
            self._documents.change_documents({MAPPINGS.at(table): None, ROW_COUNTS.at(table): None})

    # shards and closing

    def shard(self, index: int) -> HbaseShard:
        if index not in self._shards:
            self._shards[index] = HbaseShard(self.client, self.namespace, index, table=self._state_table)
        return self._shards[index]

    def read_shards(self, read: Callable[[T], R], reads: Sequence[T]) -> Iterable[R]:
        if len(reads) < 2:
            return map(read, reads)
        with self._guard:
            if self._readers is None:
                self._readers = ThreadPoolExecutor(READERS, thread_name_prefix="tailrace-shards")
        return self._readers.map(read, reads)

    def sync(self) -> None:
        """Every write is durable when it returns."""

    def close(self) -> None:
        self._trimmer.close()
        if self._readers is not None:
            self._readers.shutdown()
        self.client.close()


def _follow_bad(read: ReadEntry, bad: dict[bytes, BadRow]) -> None:
    """Keeps the rows that are bad after an entry."""
    if read.notes is not None:
        bad.update((row.key, row) for row in read.notes.bad)
        for key in read.notes.good:
            bad.pop(key, None)
