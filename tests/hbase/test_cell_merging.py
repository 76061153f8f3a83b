"""Merging cells equals a model that keeps every cell, as HBase does."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
from hypothesis import example, given, settings
from hypothesis import strategies as st

from tailrace.store.hbase.cell_merging import (
    ABSENT,
    KEPT,
    LoggedCell,
    Stamps,
    merge_puts,
    merge_row,
    settle,
    settle_none,
)
from tailrace.store.hbase.raw_log import DELETE, DELETE_COLUMN, DELETE_FAMILY, DELETE_FAMILY_VERSION, PUT

KINDS = [PUT, PUT, PUT, DELETE, DELETE_COLUMN, DELETE_FAMILY, DELETE_FAMILY_VERSION]
COLUMNS = [b"f:a", b"f:b", b"g:a"]


class Written(NamedTuple):
    column: bytes
    timestamp: int
    kind: int


class Region:
    """HBase: keeps all cells. `compact` forgets deletions and what they hide, as a major compaction does."""

    def __init__(self) -> None:
        self.cells: list[tuple[int, Written]] = []

    def hidden(self, column: bytes, timestamp: int) -> bool:
        family = column.partition(b":")[0]
        for _, cell in self.cells:
            same = cell.column == column
            in_family = cell.column.partition(b":")[0] == family
            if (
                (cell.kind == DELETE and same and timestamp == cell.timestamp)
                or (cell.kind == DELETE_COLUMN and same and timestamp <= cell.timestamp)
                or (cell.kind == DELETE_FAMILY_VERSION and in_family and timestamp == cell.timestamp)
                or (cell.kind == DELETE_FAMILY and in_family and timestamp <= cell.timestamp)
            ):
                return True
        return False

    def live(self, column: bytes, below: int = 2**62) -> tuple[int, int] | None:
        """The timestamp and index of the live cell of a column."""
        puts = [(c.timestamp, i) for i, c in self.cells if c.kind == PUT and c.column == column]
        shown = [put for put in puts if put[0] < below and not self.hidden(column, put[0])]
        return max(shown, default=None)

    def compact(self) -> None:
        puts = [(i, c) for i, c in self.cells if c.kind == PUT and self.live(c.column) == (c.timestamp, i)]
        self.cells = puts


WRITES = st.lists(
    st.builds(Written, st.sampled_from(COLUMNS), st.integers(1, 6), st.sampled_from(KINDS)) | st.none(), max_size=14
)


@settings(deadline=None, max_examples=1000)
@given(WRITES, st.data())
@example([Written(b"f:a", 1, PUT), Written(b"f:a", 2, PUT), Written(b"f:a", 2, DELETE)], None)
def test_a_row_is_that_of_a_region(writes: Sequence[Written | None], data: st.DataObject | None) -> None:
    """After each of several merges, with compactions (None) at any time, the live cells are those of HBase."""
    region, stamps = Region(), Stamps()
    live: dict[bytes, int] = {}  # column -> index of the write
    pending: list[LoggedCell] = []
    for index, write in enumerate([*writes, None]):
        if write is not None:
            region.cells.append((index, write))
            pending.append(LoggedCell(index, *write))
        if index < len(writes) and data is not None and not data.draw(st.booleans()):
            if write is None:
                region.compact()
            continue
        merged = merge_row(stamps, pending)
        for column, below in merged.doubtful.items():
            if (found := region.live(column, below)) is not None:
                settle(merged, column, *found)
        stamps, pending = merged.stamps, []
        live = {c: merged.winners.get(c, live.get(c, KEPT)) for c in stamps.live}
        expected = {c: region.live(c) for c in COLUMNS}
        assert stamps.live == {c: shown[0] for c, shown in expected.items() if shown is not None}
        assert live == {c: shown[1] for c, shown in expected.items() if shown is not None}
        if write is None:
            region.compact()


def merge_parts(region: Region, parts: Sequence[Sequence[LoggedCell]], horizon: int = ABSENT) -> dict[bytes, int]:
    """Merges parts of the log, one after the other. Returns the places of the live cells by column."""
    stamps, live = Stamps(), dict[bytes, int]()
    for part in parts:
        merged = merge_row(stamps, part, horizon)
        for column, below in merged.doubtful.items():
            if (found := region.live(column, below)) is None:
                settle_none(merged, column)
            else:
                settle(merged, column, *found)
        stamps = merged.stamps
        live = {c: merged.winners.get(c, live.get(c, KEPT)) for c in stamps.live}
    return live


@settings(deadline=None, max_examples=300)
@given(WRITES, st.integers(0, 14), st.integers(0, 14), st.booleans())
def test_a_scan_and_the_log_overlap(
    writes: Sequence[Written | None], tracked: int, scanned: int, log_first: bool
) -> None:
    """A scan after the tracking began, and the log since then, give the row, in one merge or in two."""
    cells = [w for w in writes if w is not None]
    tracked = min(tracked, len(cells))
    scanned = min(max(scanned, tracked), len(cells))
    region = Region()
    region.cells = list(enumerate(cells[:scanned]))
    shown = {c: region.live(c) for c in COLUMNS}
    scan = [LoggedCell(s[1], c, s[0], PUT, scanned=True) for c, s in shown.items() if s is not None]
    log = [LoggedCell(i, *cell) for i, cell in enumerate(cells)][tracked:]
    region.cells = list(enumerate(cells))
    horizon = max((c.timestamp for c in cells[:tracked]), default=ABSENT)
    merged = merge_parts(region, [log, scan] if log_first else [[*scan, *log]], horizon)
    assert merged == {c: s[1] for c in COLUMNS if (s := region.live(c)) is not None}


@settings(deadline=None, max_examples=1000)
@given(WRITES, st.data())
def test_late_cells(writes: Sequence[Written | None], data: st.DataObject) -> None:
    """Cells that come after later ones, or for a second time, give the row in the end."""
    region = Region()
    for index, write in enumerate(writes):
        if write is None:
            region.compact()
        else:
            region.cells.append((index, write))
    cells = [LoggedCell(index, *write) for index, write in enumerate(writes) if write is not None]
    late = {cell for cell in cells if data.draw(st.booleans())}
    again = {cell for cell in cells if data.draw(st.booleans())}
    on_time = [cell for cell in cells if cell not in late]
    merged = merge_parts(region, [on_time, [cell._replace(late=True) for cell in cells if cell in late | again]])
    assert merged == {c: s[1] for c in COLUMNS if (s := region.live(c)) is not None}


@settings(deadline=None, max_examples=300)
@given(
    st.lists(st.lists(st.sampled_from([ABSENT, 1, 3, 5]), min_size=3, max_size=3), min_size=1, max_size=4),
    st.lists(st.tuples(st.integers(0, 3), st.integers(0, 2), st.integers(1, 6), st.booleans()), max_size=20),
)
def test_many_rows_at_once(before: list[list[int]], drawn: list[tuple[int, int, int, bool]]) -> None:
    puts = sorted([(min(row, len(before) - 1), *rest) for row, *rest in drawn], key=lambda put: not put[3])
    rows, columns, timestamps, scanned = (np.array([p[i] for p in puts], np.int64) for i in range(4))
    merged = merge_puts(np.array(before, np.int64), rows, columns, timestamps, scanned.astype(bool))
    for row, live in enumerate(before):
        stamps = Stamps(live={c: t for c, t in zip(COLUMNS, live, strict=True) if t != ABSENT})
        cells = [LoggedCell(i, COLUMNS[c], t, PUT, scanned=s) for i, (r, c, t, s) in enumerate(puts) if r == row]
        expected = merge_row(stamps, cells)
        assert not expected.doubtful
        assert merged.timestamps[row].tolist() == [expected.stamps.live.get(c, ABSENT) for c in COLUMNS]
        assert merged.winners[row].tolist() == [expected.winners.get(c, KEPT) for c in COLUMNS]
