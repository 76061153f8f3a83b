"""All versions of a table's rows in a recording, as columns; and the rows that exist at a point of the history.

version   row · from · to        the row exists after the first n changes of the history   iff   from ≤ n < to
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Mapping

import numpy as np
import pyarrow as pa

from tailrace.codec.schema import TableDef
from tailrace.verify.history.timelines import BaseHistory, Record, Value


class Versions:
    """The versions of all rows of one table, in the order of `begins`."""

    def __init__(self, table: TableDef, versions: list[tuple[int, int, Value]]) -> None:
        self._rows = pa.Table.from_arrays(
            [pa.array([row[f.name] for _, _, row in versions], f.type) for f in table.schema], schema=table.schema
        )
        self.begins = np.array([begin for begin, _, _ in versions], np.int64)
        self.ends = np.array([end for _, end, _ in versions], np.int64)
        self._changes = np.unique(np.concatenate([self.begins, self.ends]))

    def changes_before(self, number: int) -> int:
        """How many of the points up to this one change the table: equal for two points if its rows are."""
        return int(np.searchsorted(self._changes, number, "right"))

    def take(self, indices: np.ndarray) -> pa.Table:
        return self._rows.take(pa.array(indices))


class VersionCursor:
    """The rows of a table at a point. Moving forward costs the rows at that point and the changes in between."""

    def __init__(self, versions: Versions) -> None:
        self._versions, self._number = versions, -1
        self._present = np.zeros(0, np.int64)

    def move_to(self, number: int) -> pa.Table:
        """The rows after the first `number` changes of the history."""
        begins, ends = self._versions.begins, self._versions.ends
        if number < self._number:
            self._number, self._present = -1, np.zeros(0, np.int64)
        new = np.arange(*np.searchsorted(begins, [self._number, number], "right"))
        present = np.concatenate([self._present, new])
        self._present, self._number = present[ends[present] > number], number
        return self._versions.take(self._present)


class VersionedTables:
    """The versions of all tables of a history."""

    def __init__(self, base: BaseHistory, tables: Mapping[str, TableDef]) -> None:
        self._transactions = [change.transaction for change in base.changes]
        found: dict[str, list[tuple[int, int, Value]]] = {name: [] for name in tables}
        open_versions: dict[Record, tuple[int, Value]] = {r: (0, row) for r, row in base.initial.items()}
        end = len(base.changes) + 1

        def close(record: Record, at: int) -> None:
            begin, row = open_versions.pop(record, (0, None))
            if row is not None:
                found[record[0]].append((begin, at, row))

        for number, change in enumerate(base.changes, 1):
            close(change.record, number)
            open_versions[change.record] = number, change.value
        for record in list(open_versions):
            close(record, end)
        self._versions = {
            name: Versions(tables[name], sorted(rows, key=lambda version: version[0])) for name, rows in found.items()
        }

    def number(self, cut: float) -> int:
        """The number of changes in the transactions up to a cut."""
        return bisect_right(self._transactions, cut)

    def __getitem__(self, table: str) -> Versions:
        return self._versions[table]
