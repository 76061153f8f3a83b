"""Resolves logged cells of one table: merges them into the images of its rows, and gives the rows before and after.

The rows that have only new puts, by far the most, are merged all at once, with NumPy and Arrow. Rows with deletions,
cells of columns that the table does not have, late cells, or timestamps up to the horizon are merged one by one.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import NamedTuple

import msgspec
import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from tailrace.codec.arrays import LARGE_BINARY, Vector
from tailrace.codec.murmur import hash_buckets
from tailrace.store import log_entries
from tailrace.store.hbase.cell_merging import (
    ABSENT,
    KEPT,
    Column,
    LoggedCell,
    Merged,
    Stamps,
    merge_puts,
    merge_row,
    settle,
    settle_none,
)
from tailrace.store.hbase.images import (
    BAD_KEY,
    NOTHING,
    Image,
    decode_more,
    decode_stamps,
    encode_stamps,
    image_prefix,
    split_stamps,
)
from tailrace.store.hbase.mapping import KEY, MappedTable, escape
from tailrace.store.hbase.raw_log import BARRIER, BULK_LOAD, LATE, PUT, RawCells
from tailrace.store.key_limit import KeyLimit

ENTRY_BYTES = 2 << 20  # of the rows of one log entry, about


class Doubt(NamedTuple):
    """A question for HBase: the newest cell of a column whose timestamp is below a limit."""

    row: bytes
    column: Column
    below: int


Answer = tuple[bytes, int] | None
Ask = Callable[[Sequence[Doubt]], Sequence[Answer]]


class Touched:
    """The rows that cells touch, in the order of their images' keys. Cells that belong to no row are left out."""

    def __init__(self, mapped: MappedTable, cells: RawCells, nodes: int, limit: KeyLimit) -> None:
        self.mapped = mapped
        self.cells = cells.take(self._wanted(mapped, cells))
        names = self.cells.rows.dictionary_encode()
        rows, codes = names.dictionary.cast(LARGE_BINARY), names.indices.to_numpy()
        key_columns, self.bad_keys = mapped.key_columns(rows)
        table, self.key_columns = mapped.table, key_columns
        ordered = limit.shorten(table.keys.encode(key_columns, len(rows)))
        self.nodes = np.where(self.bad_keys, 0, hash_buckets(key_columns, nodes, len(rows)))
        keys = zip(self.nodes.tolist(), ordered.to_pylist(), rows.to_pylist(), self.bad_keys.tolist(), strict=True)
        whole = [image_prefix(table.id, n) + (BAD_KEY + row if bad else key) for n, key, row, bad in keys]
        order = sorted(range(len(rows)), key=whole.__getitem__)
        place = np.empty(len(rows), np.int64)
        place[order] = np.arange(len(rows))
        at = pa.array(order, pa.int64())
        self.rows: list[bytes] = rows.take(at).to_pylist()
        self.keys = [whole[i] for i in order]
        self.key_columns = [column.take(at) for column in key_columns]
        self.nodes, self.bad_keys = self.nodes[order], self.bad_keys[order]
        self.row_of_cell = place[codes] if len(codes) else np.zeros(0, np.int64)

    @staticmethod
    def _wanted(mapped: MappedTable, cells: RawCells) -> Vector:
        """The cells of the table's families that are no barriers."""
        families = pa.array(mapped.families, LARGE_BINARY)
        wanted = pc.is_in(cells.families, families).to_numpy(zero_copy_only=False)
        barrier = pc.starts_with(cells.qualifiers, BARRIER).to_numpy(zero_copy_only=False)
        return np.flatnonzero(wanted & ~barrier & (cells.kinds != BULK_LOAD))

    def __len__(self) -> int:
        return len(self.rows)


@dataclass(frozen=True)
class NodeEntry:
    """A log entry: the number of changed keys, the rows before and after, and notes about rows that are bad."""

    node: int
    operations: int
    batch: pa.RecordBatch
    notes: Notes | None


class BadRow(msgspec.Struct, frozen=True, array_like=True):
    key: bytes
    row: str
    column: str
    reason: str


class Notes(msgspec.Struct, frozen=True):
    """Rows that became bad (or bad in another way), and the keys of those that are no longer bad."""

    bad: list[BadRow]
    good: list[bytes]


@dataclass(frozen=True)
class Resolved:
    """New images by key, whether there was an older image, and a bad one; entries by node; how many rows more."""

    images: list[tuple[bytes, Image]]
    replaced: list[bool]
    was_bad: list[bool]
    entries: list[NodeEntry]
    more_rows: int


def resolve(touched: Touched, images: Sequence[Image | None], horizon: int, ask: Ask) -> Resolved:
    """Merges cells into the images of the rows that they touch. `ask` answers what only HBase knows."""
    return _Resolution(touched, images, horizon).run(ask)


class _Resolution:
    def __init__(self, touched: Touched, images: Sequence[Image | None], horizon: int) -> None:
        self._touched, self._images, self._horizon = touched, images, horizon
        self._mapped, self._table, self._cells = touched.mapped, touched.mapped.table, touched.cells
        self._count = len(self._table.stored)
        # The cell `_` is column 0 of timestamps and winners; stored position p is column p + 1.
        self._columns = {self._mapped.marker: 0, **{c: p + 1 for c, p in self._mapped.positions.items()}}
        self._values = self._cells.values
        self._more: dict[int, Stamps | None] = {}  # by row: deletions and cells of other columns

    def run(self, ask: Ask) -> Resolved:
        self._merge(ask)
        after, bad = self._after()
        return self._result(after, bad)

    # merging timestamps

    @cached_property
    def _column_names(self) -> tuple[list[Column], Vector]:
        """The names of the cells' columns, and which one each cell has."""
        colon = pa.scalar(b":", LARGE_BINARY)
        joined = pc.binary_join_element_wise(self._cells.families, self._cells.qualifiers, colon).dictionary_encode()
        return joined.dictionary.to_pylist(), joined.indices.to_numpy()

    def _merge(self, ask: Ask) -> None:
        stamps = [None if image is None else image.stamps for image in self._images]
        self._timestamps, one_by_one = decode_stamps(stamps, self._count + 1)
        names, codes = self._column_names
        column_of_name = np.array([self._columns.get(name, -1) for name in names], np.int64)
        column = column_of_name[codes] if len(codes) else np.zeros(0, np.int64)
        scanned = self._cells.sequences == 0
        unusual = (column < 0) | (self._cells.kinds != PUT) | (self._cells.sequences == LATE)
        unusual |= ~scanned & (self._cells.timestamps <= self._horizon)
        one_by_one[self._touched.row_of_cell[unusual]] = True
        plain = np.flatnonzero(~one_by_one[self._touched.row_of_cell]) if len(codes) else np.zeros(0, np.int64)
        merged = merge_puts(
            self._timestamps,
            self._touched.row_of_cell[plain],
            column[plain],
            self._cells.timestamps[plain],
            scanned[plain],
        )
        self._timestamps = merged.timestamps
        self._winners = np.where(merged.winners == KEPT, KEPT, plain[merged.winners] if len(plain) else KEPT)
        self._merge_one_by_one(np.flatnonzero(one_by_one), ask)

    def _merge_one_by_one(self, rows: Vector, ask: Ask) -> None:
        if not len(rows):
            return
        cells: dict[int, list[LoggedCell]] = {row: [] for row in rows.tolist()}
        names, codes = self._column_names
        numbers = (self._touched.row_of_cell, codes, self._cells.timestamps, self._cells.kinds, self._cells.sequences)
        for place, (row, code, timestamp, kind, sequence) in enumerate(
            zip(*(n.tolist() for n in numbers), strict=True)
        ):
            if row in cells:
                cell = LoggedCell(place, names[code], timestamp, kind, scanned=sequence == 0, late=sequence == LATE)
                cells[row].append(cell)
        merged = {row: merge_row(self._stamps(row), cells[row], self._horizon) for row in cells}
        self._settle(merged, ask)
        for row, result in merged.items():
            self._timestamps[row], self._more[row] = split_stamps(result.stamps, self._columns, self._count)
            self._winners[row] = KEPT
            for name, place in result.winners.items():
                if name in self._columns:
                    self._winners[row, self._columns[name]] = place

    def _stamps(self, row: int) -> Stamps:
        """The stamps of a row before, with all its columns."""
        image = self._images[row]
        if image is None:
            return Stamps()
        stamps = decode_more(image.stamps)
        # A column that was added later has no value in the image: it is as if it had no cell.
        live = {name: timestamp for name, timestamp in stamps.live.items() if name not in self._columns}
        for name, column in self._columns.items():
            if (timestamp := int(self._timestamps[row, column])) != ABSENT:
                live[name] = timestamp
        return msgspec.structs.replace(stamps, live=live)

    def _settle(self, merged: Mapping[int, Merged], ask: Ask) -> None:
        doubts = [(row, name, below) for row, one in merged.items() for name, below in sorted(one.doubtful.items())]
        answers = ask([Doubt(self._touched.rows[row], name, below) for row, name, below in doubts]) if doubts else ()
        new_values: list[bytes] = []
        for (row, name, _), answer in zip(doubts, answers, strict=True):
            if answer is None:
                settle_none(merged[row], name)
            else:
                settle(merged[row], name, answer[1], len(self._cells) + len(new_values))
                new_values.append(answer[0])
        if new_values:
            self._values = pa.concat_arrays([self._values, pa.array(new_values, LARGE_BINARY)])

    # rows

    @cached_property
    def _before(self) -> tuple[pa.RecordBatch, Vector]:
        """The packed rows of the images, decoded, and the place of each touched row among them (-1: none)."""
        packed = [image.row for image in self._images if image is not None and image.row is not None]
        present = np.array([image is not None and image.row is not None for image in self._images], bool)
        return self._table.decode(packed), np.where(present, np.cumsum(present) - 1, -1)

    def _after(self) -> tuple[pa.RecordBatch, dict[int, dict[str, str]]]:
        """All touched rows after the merge, and why some are bad."""
        before, place = self._before
        bad: dict[int, dict[str, str]] = {}
        keys = dict(zip(self._table.positions, self._touched.key_columns, strict=True))
        columns = []
        for position in range(self._count):
            if position in keys:
                columns.append(keys[position])
                continue
            winner, absent = self._winners[:, position + 1], self._timestamps[:, position + 1] == ABSENT
            new = np.flatnonzero(winner != KEPT)
            decoded, wrong = self._mapped.decode_cells(position, self._values.take(pa.array(winner[new])))
            at = np.where(absent, -1, place)
            at[new] = before.num_rows + np.arange(len(new))
            both = pa.concat_arrays([before.column(position), decoded])
            columns.append(both.take(pa.array(at, mask=at < 0)))
            self._note_bad(bad, position, winner, absent, new[wrong])
        for row in np.flatnonzero(self._touched.bad_keys).tolist():
            bad[row] = {KEY: self._mapped.key_reason()} if self._exists[row] else {}
        return pa.RecordBatch.from_arrays(columns, schema=self._table.stored_schema), bad

    def _note_bad(
        self, bad: dict[int, dict[str, str]], position: int, winner: Vector, absent: Vector, wrong: Vector
    ) -> None:
        cell = self._mapped.cells[position]
        assert cell is not None, "a key column has no cells"
        name = escape(cell.column)
        for row in wrong.tolist():
            bad.setdefault(row, {})[name] = self._mapped.reason(position)
        for row, reasons in self._were_bad.items():
            if name in reasons and winner[row] == KEPT and not absent[row]:
                bad.setdefault(row, {})[name] = reasons[name]

    @cached_property
    def _were_bad(self) -> dict[int, Mapping[str, str]]:
        """The rows that were bad before, and why."""
        return {row: image.bad for row, image in enumerate(self._images) if image is not None and image.bad}

    @cached_property
    def _exists(self) -> Vector:
        exists: Vector = (self._timestamps != ABSENT).any(axis=1)
        for row, more in self._more.items():
            exists[row] |= more is not None and bool(more.live)
        return exists

    # the result

    def _result(self, after: pa.RecordBatch, bad: dict[int, dict[str, str]]) -> Resolved:
        before, place = self._before
        packed_before: list[bytes | None] = [*self._table.rows.encode(before).to_pylist(), None]  # -1 is the last one
        olds = [packed_before[at] for at in place.tolist()]
        for row in self._were_bad:
            olds[row] = None
        exists = (self._exists & ~self._touched.bad_keys).tolist()
        rows = [row if e else None for row, e in zip(self._table.rows.encode(after).to_pylist(), exists, strict=True)]
        reasons = [bad.get(row) or NOTHING for row in range(len(rows))] if bad else [NOTHING] * len(rows)
        stamps = encode_stamps(self._timestamps, self._more)
        news = [None if why else row for row, why in zip(rows, reasons, strict=True)] if bad else rows
        changed = np.fromiter((old != new for old, new in zip(olds, news, strict=True)), bool, len(rows))
        for row in {*bad, *self._were_bad}:
            changed[row] |= reasons[row] != self._were_bad.get(row, NOTHING)
        shown = np.array([[one is not None for one in olds], [one is not None for one in news]], bool)
        images = [*zip(self._touched.keys, map(Image, rows, stamps, reasons), strict=True)]
        before_count, after_count = shown.sum(axis=1).tolist()
        return Resolved(
            images,
            [image is not None for image in self._images],
            [row in self._were_bad for row in range(len(rows))] if self._were_bad else [False] * len(rows),
            self._entries(after, changed, shown, images),
            after_count - before_count,
        )

    def _entries(
        self,
        after: pa.RecordBatch,
        changed: Vector,
        shown: Vector,
        images: Sequence[tuple[bytes, Image]],
    ) -> list[NodeEntry]:
        before, place = self._before
        sizes = np.array([len(new.row or b"") for _, new in images], np.int64) + 64
        sizes += np.array([len(old.row or b"") if old is not None else 0 for old in self._images], np.int64)
        entries = []
        for node in np.unique(self._touched.nodes[changed]).tolist():
            rows = np.flatnonzero(changed & (self._touched.nodes == node))
            parts = np.cumsum(sizes[rows]) // ENTRY_BYTES
            for part in np.unique(parts).tolist():
                of_part = rows[parts == part]
                olds = before.take(pa.array(place[of_part[shown[0, of_part]]]))
                news = after.take(pa.array(of_part[shown[1, of_part]]))
                delta = log_entries.build_delta(self._table, olds, news)
                entries.append(NodeEntry(node, len(of_part), delta, self._notes(of_part, images)))
        return entries

    def _notes(self, rows: Vector, images: Sequence[tuple[bytes, Image]]) -> Notes | None:
        bad, good = [], []
        for row in rows.tolist():
            key, image = images[row]
            old = self._images[row]
            if image.bad:
                column, reason = next(iter(image.bad.items()))
                bad.append(BadRow(key[6:], escape(self._touched.rows[row]), column, reason))
            elif old is not None and old.bad:
                good.append(key[6:])
        return Notes(bad, good) if bad or good else None
