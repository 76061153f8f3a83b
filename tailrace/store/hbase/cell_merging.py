"""Merges logged cells into rows, as HBase does. It needs no values, only the timestamps of cells.

A log of HBase has new cells only, and clients may set timestamps, also out of order. So the *stamps* of a row are kept
with it: the timestamp of the live cell of each column, and those of deletions. The live cell of a column is

    the put with the greatest timestamp that no deletion hides; of several with that timestamp, the last one logged

    Delete                  hides the puts of a column with exactly its timestamp
    DeleteColumn            hides the puts of a column with its timestamp or a smaller one
    DeleteFamilyVersion     as Delete, for all columns of a family
    DeleteFamily            as DeleteColumn, for all columns of a family

A deletion hides puts that come later, too, until HBase forgets it (at a major compaction). And when a Delete hides the
live cell, an older version shows again if HBase still has it, whatever the VERSIONS of the family. Only HBase can
answer both, so such columns are *doubtful*: the resolver asks HBase for the newest cell below a timestamp, and its
answer is the live cell. Puts with timestamps up to the *horizon* are doubtful, too. The horizon is the newest timestamp
of deletions that were not logged for Tailrace, or that are no longer kept. Timestamps that servers set are above it.

A *late* cell comes after cells that were logged later, or for a second time. The columns that it puts or hides are
doubtful.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import msgspec
import numpy as np

from tailrace.codec.arrays import Vector
from tailrace.store.hbase.raw_log import DELETE, DELETE_COLUMN, DELETE_FAMILY, DELETE_FAMILY_VERSION, PUT

MOST_VERSIONS = 100  # single deleted versions that a column or family remembers
ABSENT = -(2**63)
KEPT = -1  # the place of a winner that is the cell of the image

Column = bytes  # family:qualifier


class LoggedCell(NamedTuple):
    """A cell of the log. `place` is its index in the log; `scanned` if a scan has read it; `late` as above."""

    place: int
    column: Column
    timestamp: int
    kind: int
    scanned: bool = False
    late: bool = False

    @property
    def family(self) -> bytes:
        return self.column.partition(b":")[0]


class Stamps(msgspec.Struct, omit_defaults=True):
    """The timestamps of a row: of its live cells, of deletions by column and by family, of single deleted versions."""

    live: dict[Column, int] = {}
    columns: dict[Column, int] = {}
    families: dict[bytes, int] = {}
    versions: dict[Column, list[int]] = {}
    family_versions: dict[bytes, list[int]] = {}

    def hides_all(self, column: Column, timestamp: int) -> bool:
        """Whether a deletion hides the puts of a column with this timestamp and all older ones."""
        in_family = timestamp <= self.families.get(column.partition(b":")[0], ABSENT)
        return in_family or timestamp <= self.columns.get(column, ABSENT)

    def hides(self, column: Column, timestamp: int) -> bool:
        """Whether a deletion hides the puts of a column with this timestamp."""
        return (
            self.hides_all(column, timestamp)
            or timestamp in self.versions.get(column, ())
            or timestamp in self.family_versions.get(column.partition(b":")[0], ())
        )

    def add(self, cell: LoggedCell) -> None:
        """Adds a deletion."""
        if cell.kind == DELETE_COLUMN:
            self.columns[cell.column] = max(cell.timestamp, self.columns.get(cell.column, ABSENT))
        elif cell.kind == DELETE_FAMILY:
            self.families[cell.family] = max(cell.timestamp, self.families.get(cell.family, ABSENT))
        elif cell.kind == DELETE:
            self.versions[cell.column] = _with(self.versions.get(cell.column, []), cell.timestamp)
        elif cell.kind == DELETE_FAMILY_VERSION:
            self.family_versions[cell.family] = _with(self.family_versions.get(cell.family, []), cell.timestamp)

    def copy(self) -> Stamps:
        return Stamps(*(dict(getattr(self, name)) for name in self.__struct_fields__))


def _with(versions: list[int], timestamp: int) -> list[int]:
    return sorted({*versions, timestamp})[-MOST_VERSIONS:]


class Merged(NamedTuple):
    """The stamps of a row after some cells, and what is live in it.

    `winners` has, for each column whose live cell is a new one, the place of that cell. `doubtful` has the columns
    whose live cell only HBase knows, each with a timestamp: the cell is below it. `late` are those of them for which
    the answer of HBase counts, even if it is that there is none.
    """

    stamps: Stamps
    winners: dict[Column, int]
    doubtful: dict[Column, int]
    late: set[Column]


def merge_row(before: Stamps, cells: Sequence[LoggedCell], horizon: int = ABSENT) -> Merged:
    """Merges cells, in the order of the log, into a row."""
    stamps = before.copy()
    puts: dict[Column, list[LoggedCell]] = {}
    doubtful: dict[Column, int] = {}
    late: set[Column] = {cell.column for cell in cells if cell.late and cell.kind == PUT}
    for cell in cells:
        if cell.kind != PUT:
            stamps.add(cell)
        elif cell.late or (
            not cell.scanned and (cell.timestamp <= horizon or stamps.hides(cell.column, cell.timestamp))
        ):
            doubtful[cell.column] = max(cell.timestamp + 1, doubtful.get(cell.column, ABSENT))
        else:
            puts.setdefault(cell.column, []).append(cell)
    winners, is_deleted_late = {}, any(cell.late and cell.kind != PUT for cell in cells)
    for column in {*puts, *before.live}:
        candidates = [(cell.timestamp, 0 if cell.scanned else 2, cell.place) for cell in puts.get(column, ())]
        if column in before.live:
            candidates.append((before.live[column], 1, KEPT))
        stamps.live.pop(column, None)
        timestamp, _, place = max(candidates)
        if not stamps.hides(column, timestamp):
            stamps.live[column] = timestamp
            if place != KEPT:
                winners[column] = place
        elif is_deleted_late:  # the cell may have been put after the deletion, when HBase had forgotten that
            doubtful[column] = max(timestamp + 1, doubtful.get(column, ABSENT))
            late.add(column)
        elif not stamps.hides_all(column, timestamp):  # the deletion of one version: an older one may show again
            doubtful[column] = max(timestamp, doubtful.get(column, ABSENT))
    open_columns = {c: below for c, below in doubtful.items() if stamps.live.get(c, ABSENT) < below}
    return Merged(stamps, winners, open_columns, late & open_columns.keys())


def settle_none(merged: Merged, column: Column) -> None:
    """HBase has no cell for a doubtful column. If late cells made it so, the column has none."""
    if column in merged.late:
        merged.stamps.live.pop(column, None)
        merged.winners.pop(column, None)


def settle(merged: Merged, column: Column, timestamp: int, place: int) -> None:
    """Takes over the cell that HBase has for a doubtful column. Deletions that would hide it are forgotten."""
    stamps, family = merged.stamps, column.partition(b":")[0]
    if timestamp < stamps.live.get(column, ABSENT) and column not in merged.late:
        return
    stamps.live[column] = timestamp
    merged.winners[column] = place
    if timestamp <= stamps.columns.get(column, ABSENT):
        stamps.columns[column] = timestamp - 1
    if timestamp <= stamps.families.get(family, ABSENT):
        stamps.families[family] = timestamp - 1
    for versions, name in ((stamps.versions, column), (stamps.family_versions, family)):
        if timestamp in versions.get(name, ()):
            versions[name] = [t for t in versions[name] if t != timestamp]


class MergedPuts(NamedTuple):
    """For each row and column, the timestamp of the live cell (`ABSENT`: none) and its place (`KEPT`: as before)."""

    timestamps: Vector
    winners: Vector


def merge_puts(before: Vector, rows: Vector, columns: Vector, timestamps: Vector, scanned: Vector) -> MergedPuts:
    """`merge_row` for many rows at once, without deletions. `before` has the timestamps of live cells.

    The puts are in the order of the log: `rows[i]` and `columns[i]` are the row and the column of put i in `before`.
    """
    after, winners = before.copy(), np.full(before.shape, KEPT, np.int64)
    if not len(rows):
        return MergedPuts(after, winners)
    order = np.lexsort((np.arange(len(rows)), ~scanned, timestamps, columns, rows))
    row, column = rows[order], columns[order]
    last = np.append((row[1:] != row[:-1]) | (column[1:] != column[:-1]), True)
    chosen = order[last]
    at = rows[chosen], columns[chosen]
    newer = (timestamps[chosen] > before[at]) | ((timestamps[chosen] == before[at]) & ~scanned[chosen])
    at = at[0][newer], at[1][newer]
    after[at] = timestamps[chosen[newer]]
    winners[at] = chosen[newer]
    return MergedPuts(after, winners)
