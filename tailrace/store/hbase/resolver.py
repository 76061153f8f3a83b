"""The resolver: makes transactions of the store from what HBase has logged. One process at a time does so.

    1. forming = n, the marks that it goes up to         (a document, on the condition that the tail is as it was)
    2. log entries and images of transaction n           (rows of HBase)
    3. tail = n, the ends of the logs, the marks          (a document, on the same condition)

A process that finds a transaction left open makes it anew under the next number, up to the same marks. It touches the
same rows, so whatever an earlier attempt wrote, or still writes, is hidden by what it writes itself.

Late chunks (`raw_log.py`) are looked for once in a while, and get transactions of their own. So do chunks that a
process has resolved, but not deleted: they cannot be told from late ones, and to merge them again changes nothing.
"""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from typing import Any, NamedTuple

import numpy as np
import pyarrow.compute as pc
from msgspec import structs

from tailrace import faults
from tailrace.codec.schema import TableDef
from tailrace.errors import Conflict, EpochsLocked, NotShipped
from tailrace.store.base import LAYOUTS, ROW_COUNTS, Cut
from tailrace.store.hbase.admin import Admin
from tailrace.store.hbase.client import Client, Deletion
from tailrace.store.hbase.images import Image, Images, WrittenImages, last_deletion
from tailrace.store.hbase.mapping import MAPPINGS, MappedTable, TableMapping
from tailrace.store.hbase.meta import Documents
from tailrace.store.hbase.placement import Observer
from tailrace.store.hbase.raw_log import (
    BARRIER,
    BULK_LOAD,
    SCAN,
    Chunk,
    Mark,
    RawCells,
    cells_of,
    concat,
    find_late,
    find_left_scans,
    read_chunks,
    read_late,
    read_marks,
)
from tailrace.store.hbase.recent_images import RecentImages
from tailrace.store.hbase.resolved_log import ResolvedLog
from tailrace.store.hbase.resolving import Answer, Doubt, Resolved, Touched, resolve
from tailrace.store.hbase.rounds import Round, Rounds
from tailrace.store.hbase.row_locks import RowLocks
from tailrace.store.hbase.tail import FORMING, ROUND, TAIL, WANTED, Forming, Tail
from tailrace.store.hbase.tracking import Barrier, Tracking, new_scan_name
from tailrace.store.key_limit import KeyLimit

LOCK = "tail"
PATIENCE = 600.0  # seconds that a caller waits for another process that resolves
BARRIER_PATIENCE = 120.0  # seconds until a region must have shipped a barrier
GLANCE = 0.01  # seconds between two looks at the marks
LAST = ROUND - 1024  # transactions of a round that is open, at most: numbers of the next one are for later writes
LARGEST = 32 << 20  # bytes of the raw log that one transaction covers, about
LATE_INTERVAL = 60.0  # seconds between two looks for late chunks
LATE_CHUNKS = 64  # late chunks of one transaction, at most


class _Range(NamedTuple):
    """What a transaction covers: cells by table, new marks, the chunks, and the barriers among the cells.

    `late` are the rows of the chunks, if these are late ones.
    """

    cells: dict[str, list[RawCells]]
    marks: dict[str, int]
    chunks: list[Chunk]
    barriers: set[tuple[Barrier, bytes]]
    late: tuple[bytes, ...] = ()


class Correction(NamedTuple):
    """What an image should be, and the transaction up to which it was compared with HBase."""

    key: bytes
    image: Image
    transaction: int


class Resolver:
    def __init__(
        self, client: Client, namespace: str, documents: Documents, locks: RowLocks, nodes: int, key_limit: KeyLimit
    ) -> None:
        self._client, self._documents, self._locks = client, documents, locks
        self._namespace = namespace
        self._nodes, self._key_limit = nodes, key_limit
        self._wal, self._marks = client.table(f"{namespace}:wal", b"w"), client.table(f"{namespace}:marks", b"m")
        self._images = Images(client.table(f"{namespace}:rows", b"r"))
        self._recent = RecentImages(self._images)
        self._log = ResolvedLog(client.table(f"{namespace}:log", b"l"))
        self._tracking = Tracking(client, namespace)
        url = f"{client.url}/{namespace}"
        self._rounds, self._observer = Rounds(documents, url), Observer(Admin(client), documents, url)
        self._looked = -LATE_INTERVAL  # when this process last looked for late chunks

    @property
    def tail(self) -> Tail:
        return self._documents.document(TAIL) or Tail((0,) * self._nodes)

    @property
    def settled(self) -> float:
        """Everything that was written before this time (milliseconds since 1970) is resolved, as far as known here."""
        return self._rounds.settled * 1000

    def advance(self) -> None:
        """Resolves what was shipped, without waiting for the rest. If another process does so, returns at once."""
        with suppress(EpochsLocked), self._resolving():
            tail, wanted, tables = self._begin()
            if self._rounds.is_due(tail, wanted):
                tail, _ = self._begin_round(tail)
            self._follow_round(tail)
            self._observer.observe_if_due(tables)

    def catch_up(self) -> None:
        """Resolves everything that was written before this call."""
        with self._resolving(PATIENCE):
            tail, waiting = self._begin_round(self._begin()[0])
            has_ended = False
            while not has_ended:
                tail, has_ended = self._follow_round(tail)
                if not has_ended:
                    if waiting.seconds > BARRIER_PATIENCE:
                        raise self._not_shipped(waiting)
                    time.sleep(GLANCE)

    @contextmanager
    def _resolving(self, patience: float = 0.0) -> Iterator[None]:
        """Holds the lock. After an error, this process may have missed barriers of its round: it forgets the round."""
        with self._locks.held(LOCK, patience):
            try:
                yield
            except BaseException:
                self._rounds.open = None
                raise

    def exclusively(self, patience: float = PATIENCE) -> Any:
        """Keeps all processes from resolving, in a block."""
        return self._locks.held(LOCK, patience)

    def correct(self, corrections: Sequence[Correction]) -> Cut:
        """Replaces images that were wrong, in a transaction without a log entry. Returns the cut after it.

        Images that were replaced since they were compared stay. The caller computes everything that depends on these
        rows again. Deletions that the images may have known of are forgotten: the horizons of all tables are raised,
        so that HBase is asked instead.
        """
        with self._resolving(PATIENCE):
            tail, *_ = self._begin()
            if corrections:
                for key in self._documents.documents(MAPPINGS):
                    self.raise_horizon(key, int(time.time() * 1000))
            newest = self._images.transactions([one.key for one in corrections])
            pairs = zip(corrections, newest, strict=True)
            images = [(one.key, one.image) for one, last in pairs if last is None or last <= one.transaction]
            forming = Forming(tail.transaction + 1, {})
            self._documents.change_documents({FORMING.name: forming}, expected=self._as_stored(tail))
            gone = {n: last_deletion(image.stamps) for n, (_, image) in enumerate(images) if image.row is None}
            written = WrittenImages([key for key, _ in images], b"\1" * len(images), gone)
            self._images.write(images, [True] * len(images), forming.transaction)
            self._log.write_note(forming.transaction, time.time(), tail.ends, written)
            changes = {TAIL.name: structs.replace(tail, transaction=forming.transaction), FORMING.name: None}
            self._documents.change_documents(changes, expected=self._as_stored(tail, forming))
            return Cut(forming.transaction, tail.ends)

    def raise_horizon(self, key: str, horizon: int) -> None:
        """From now on HBase is asked about deletions of a table up to a time: images may no longer know them.

        The caller holds the lock (`exclusively`).
        """
        self._change_mapping(key, lambda mapping: structs.replace(mapping, horizon=max(mapping.horizon, horizon)))

    def _change_mapping(self, key: str, change: Callable[[TableMapping], TableMapping]) -> None:
        """Changes the mapping of a table, unless it was dropped."""
        name = MAPPINGS.at(key)
        while (mapping := self._documents.document(MAPPINGS, key)) is not None and change(mapping) != mapping:
            with suppress(Conflict):
                self._documents.change_documents({name: change(mapping)}, expected={name: mapping})

    # rounds

    def _begin_round(self, tail: Tail) -> tuple[Tail, Round]:
        """Begins a round: everything that was written before it is resolved when it ends. Returns the new tail."""
        begun = structs.replace(tail, begun=tail.begun + 1)
        self._documents.change_documents({TAIL.name: begun}, expected=self._as_stored(tail))
        faults.point("tail.round")
        barriers = self._tracking.put_barriers(self._documents.documents(MAPPINGS).values())
        self._rounds.open = waiting = Round(begun.begun, *barriers, tail.transaction)
        return begun, waiting

    def _follow_round(self, tail: Tail) -> tuple[Tail, bool]:
        """Resolves what was shipped. Returns the new tail, and whether no round is open: the last one has ended."""
        tail, barriers = self._resolve(tail)
        waiting = self._rounds.open
        if waiting is None:
            return tail, True
        came, tables = {barrier for barrier, name in barriers if name == waiting.name}, self._mapped_tables()
        waiting.left = {b: region for b, region in waiting.left.items() if b not in came and b[0] in tables}
        if waiting.left:
            self._rounds.report_if_stalled()
            if tail.transaction % ROUND > LAST:
                raise self._not_shipped(waiting)
            return tail, False
        if time.monotonic() - self._looked >= LATE_INTERVAL:
            tail = self._resolve_late(tail)
            self._looked = time.monotonic()
        if self._rounds.end(tail):
            ended = structs.replace(tail, transaction=waiting.number * ROUND)
            self._log.write_note(ended.transaction, time.time(), ended.ends)
            self._documents.change_documents({TAIL.name: ended}, expected=self._as_stored(tail))
            self._recent.note((), tail.transaction, ended.transaction)
            tail = ended
        return tail, True

    def _not_shipped(self, waiting: Round) -> NotShipped:
        (table, _), region = next(iter(waiting.left.items()))
        return NotShipped(
            url=f"{self._client.url}/{self._namespace}",
            namespace=self._namespace,
            table=table,
            region=region.name,
            seconds=waiting.seconds,
        )

    def _mapped_tables(self) -> set[str]:
        """The tables of HBase that are tailed."""
        return {mapping.table for mapping in self._documents.documents(MAPPINGS).values()}

    @staticmethod
    def _as_stored(tail: Tail, forming: Forming | None = None) -> dict[str, Any]:
        """The condition that the tail is still this one, and the transaction that is being made, too."""
        return {TAIL.name: tail if tail != Tail((0,) * len(tail.ends)) else None, FORMING.name: forming}

    # transactions

    def _begin(self) -> tuple[Tail, int, set[str]]:
        """Ends what another process has left: a transaction, tables to attach.

        Returns the tail, the position that a reader waits for, and the tables of HBase that are tailed.
        """
        found = self._documents.together(FORMING, TAIL, WANTED, MAPPINGS)
        tail: Tail = found[TAIL.name].get("", Tail((0,) * self._nodes))
        if forming := found[FORMING.name].get(""):
            self._log.clear(tail.ends, forming.transaction)
            tail = self._form(self._read_again(forming, tail), tail, forming)
        for key, mapping in found[MAPPINGS.name].items():
            if not mapping.attached:
                self._attach(key, mapping, tail)
        tables = {mapping.table for mapping in found[MAPPINGS.name].values()}
        return tail, found[WANTED.name].get("", 0), tables

    def _read_again(self, forming: Forming, tail: Tail) -> _Range:
        """Reads the input of an unfinished transaction again: the same regions up to the same marks, in order."""
        if forming.late:
            return self._read_late(forming.late)
        marks = enumerate(forming.marks.items())
        target = {region: Mark("", region, number, "", "", 0, sequence=mark) for number, (region, mark) in marks}
        found = self._read(target, tail, largest=math.inf)
        assert found.marks == forming.marks, (found.marks, forming.marks)
        return found

    def _attach(self, key: str, mapping: TableMapping, tail: Tail) -> None:
        """Takes in the rows that a table has already. Repeated if the process ends before it is done.

        A scan counts only if the mapping names it: not that of a process that has lost the lock meanwhile.
        """
        name, scanning = MAPPINGS.at(key), structs.replace(mapping, scan=new_scan_name())
        self._documents.change_documents({name: scanning}, expected={name: mapping})
        self._tracking.track(mapping.table)
        self._await_shipping(mapping, tail)
        horizon = self._tracking.scan(scanning)
        faults.point("tail.scanned")
        attached = structs.replace(scanning, attached=True, horizon=horizon)
        self._documents.change_documents({name: attached}, expected={name: scanning})

    def _await_shipping(self, mapping: TableMapping, tail: Tail) -> None:
        """Waits until every region of a table ships its cells. What is written then is in the scan or in the log.

        A region that has not been opened again since its replication scope was set does not ship them yet.
        """
        waiting = Round(0, *self._tracking.put_barriers([mapping]), tail.transaction)
        seen = dict(tail.marks)
        while waiting.left:
            for region, mark in read_marks(self._marks).items():
                if mark.table == mapping.table and mark.sequence > seen.get(region, 0):
                    for chunk in read_chunks(self._wal, region, seen.get(region, 0), mark.sequence):
                        for barrier, name in _barriers(chunk.cells):
                            if name == waiting.name:
                                waiting.left.pop(barrier, None)
                    seen[region] = mark.sequence
            if waiting.left:
                if waiting.seconds > BARRIER_PATIENCE:
                    raise self._not_shipped(waiting)
                time.sleep(GLANCE)

    def _resolve(self, tail: Tail) -> tuple[Tail, set[tuple[Barrier, bytes]]]:
        """Makes transactions up to the marks as they are now. Returns the new tail and the barriers that it met."""
        target, barriers = self._read_marks(tail), set[tuple[Barrier, bytes]]()
        while (found := self._read(target, tail, LARGEST)).marks:
            tail = self._form(found, tail, None)
            barriers |= found.barriers
        return tail, barriers

    def _read_marks(self, tail: Tail) -> dict[str, Mark]:
        """The marks of regions, and of those new scans that a mapping names."""
        marks = read_marks(self._marks)
        scans = {region for region in marks if region.startswith(SCAN) and region not in tail.marks}
        if scans:
            scans -= {mapping.scan for mapping in self._documents.documents(MAPPINGS).values()}
        return {region: mark for region, mark in marks.items() if region not in scans}

    def _read(self, target: Mapping[str, Mark], tail: Tail, largest: float) -> _Range:
        """Reads the raw log from the tail towards the target: older regions first, whole chunks, a limited size.

        A region's cells are read only if those of older regions are read up to the target: so no later change of a
        key is resolved before an earlier one.
        """
        found, size = _Range({}, {}, [], set()), 0
        for region, mark in sorted(target.items(), key=lambda item: (item[1].id, item[0])):
            after = tail.marks.get(region, 0)
            if mark.sequence <= after or size > largest:
                continue
            chunks, upto = [], mark.sequence
            for chunk in read_chunks(self._wal, region, after, mark.sequence):
                chunks.append(chunk)
                size += chunk.size
                if size > largest:
                    upto = chunk.sequence
                    break
            found.marks[region] = upto
            found.chunks.extend(chunks)
            for cells in cells_of(region, chunks, after, upto):
                found.cells.setdefault(cells.table, []).append(cells)
                found.barriers.update(_barriers(cells))
        return found

    def _resolve_late(self, tail: Tail) -> Tail:
        """Makes transactions of the late chunks, and deletes those of scans that do not count. Returns the new tail."""
        scans = {mapping.scan for mapping in self._documents.documents(MAPPINGS).values()}
        while late := find_late(self._wal, tail.marks, LATE_CHUNKS):
            tail = self._form(self._read_late(late), tail, None)
        for rows in find_left_scans(self._wal, scans, tail.marks):
            self._wal.delete_many([Deletion(row, timestamp) for row, timestamp in rows])
        return tail

    def _read_late(self, rows: Sequence[bytes]) -> _Range:
        found = _Range({}, {}, read_late(self._wal, rows), set(), tuple(rows))
        for chunk in found.chunks:
            found.cells.setdefault(chunk.cells.table, []).append(chunk.cells)
        return found

    def _form(self, found: _Range, tail: Tail, left: Forming | None) -> Tail:
        """Makes one transaction. `left` is an earlier attempt that was not ended. Returns the new tail."""
        number = (tail.transaction if left is None else left.transaction) + 1
        forming = Forming(number, found.marks, found.late)
        self._documents.change_documents({FORMING.name: forming}, expected=self._as_stored(tail, left))
        faults.point("tail.forming")
        ends, changes, written = list(tail.ends), dict[str, Any](), WrittenImages([], b"", {})
        images: list[tuple[bytes, Image]] = []
        for key, mapped, count in self._tables(found.cells):
            resolved, loaded = self._resolve_table(mapped, concat(found.cells[mapped.mapping.table]), tail)
            images += resolved.images
            written = _with_images(written, resolved, is_repeated=left is not None)
            self._log.append(mapped.table, number, ends, resolved.entries)
            faults.point("tail.logged")
            self._images.write(resolved.images, resolved.was_bad, number)
            if resolved.more_rows:
                changes[ROW_COUNTS.at(key)] = max(0, count + resolved.more_rows)
            if loaded:
                self._change_mapping(key, lambda mapping: structs.replace(mapping, attached=False))
        faults.point("tail.written")
        transaction = number if written.keys or left is not None else tail.transaction
        if transaction > tail.transaction:
            self._log.write_note(transaction, time.time(), ends, written if written.keys else None)
        new = Tail(tuple(ends), transaction, {**tail.marks, **found.marks}, tail.begun)
        changes |= {TAIL.name: new, FORMING.name: None}
        self._documents.change_documents(changes, expected=self._as_stored(tail, forming))
        self._recent.note(images, tail.transaction, transaction)
        faults.point("tail.committed")
        self._clear(found.chunks)
        return new

    def _clear(self, chunks: Sequence[Chunk]) -> None:
        self._wal.delete_many([Deletion(chunk.row, chunk.timestamp) for chunk in chunks])

    def _tables(self, cells: Mapping[str, Any]) -> list[tuple[str, MappedTable, int]]:
        """The tables that are mapped to those of HBase, by id, and how many rows they have."""
        found = self._documents.together(MAPPINGS, LAYOUTS, ROW_COUNTS)
        layouts, counts = found[LAYOUTS.name], found[ROW_COUNTS.name]
        return [
            (key, mapped_table(int(key), mapping, layouts.get(key)), counts.get(key, 0))
            for key, mapping in found[MAPPINGS.name].items()
            if mapping.table in cells
        ]

    def _resolve_table(self, mapped: MappedTable, cells: RawCells, tail: Tail) -> tuple[Resolved, bool]:
        """Resolves cells of one table. Also returns whether a bulk load put others, which are not in the log."""
        touched = Touched(mapped, cells, self._nodes, self._key_limit)
        images = self._recent.read(touched.keys, tail.transaction)
        handle = self._client.table(mapped.mapping.table, None)

        def ask(doubts: Sequence[Doubt]) -> list[Answer]:
            columns = sorted({doubt.column for doubt in doubts})
            limits = [doubt.below for doubt in doubts]
            found = handle.get_many([doubt.row for doubt in doubts], before=limits, qualifiers=columns)
            return [answer.get(doubt.column) for doubt, answer in zip(doubts, found, strict=True)]

        resolved = resolve(touched, images, mapped.mapping.horizon, ask)
        return resolved, bool(np.any(cells.kinds == BULK_LOAD))


def mapped_table(number: int, mapping: TableMapping, layout: Any) -> MappedTable:
    """A table as its mapping and its layout say, without the catalog."""
    table = TableDef(number, mapping.name, mapping.columns, mapping.key)
    return MappedTable(mapping, table.with_layout(layout))


def _barriers(cells: RawCells) -> set[tuple[Barrier, bytes]]:
    """The barriers among cells, with their names. Some may be those of another store."""
    at = np.flatnonzero(pc.starts_with(cells.qualifiers, BARRIER).to_numpy(zero_copy_only=False))
    return {((cells.table, cells.rows[i].as_py()), cells.qualifiers[i].as_py()[len(BARRIER) :]) for i in at.tolist()}


def _with_images(written: WrittenImages, resolved: Resolved, *, is_repeated: bool) -> WrittenImages:
    """Adds the images of one table. An earlier attempt (`is_repeated`) may have left images of any of these keys."""
    begin = len(written.keys)
    replaced = bytes(is_repeated or old for old in resolved.replaced)
    gone = ((n, image.stamps) for n, (_, image) in enumerate(resolved.images, begin) if not (image.row or image.bad))
    deleted = {n: last_deletion(stamps) for n, stamps in gone}
    keys = [*written.keys, *(key for key, _ in resolved.images)]
    return WrittenImages(keys, written.replaced + replaced, {**written.deleted, **deleted})
