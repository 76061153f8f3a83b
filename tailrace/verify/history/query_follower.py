"""Follows a view's SQL from cut to cut: Spark computes the view at each, and only rows that differ are looked at.

Two results are compared as bytes, a column at a time (`codec/rows.py`). Equal bytes are equal rows; the few rows whose
bytes differ are brought into the canonical form (`row_shapes.py`). So a state costs Spark's work for it, and Python's
work for its changed rows only. Nothing but the last result is kept.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import Any

import numpy as np
import pyarrow as pa

from tailrace import types
from tailrace.codec.rows import RowCodec
from tailrace.delta import column
from tailrace.errors import TailraceError
from tailrace.verify.history.row_shapes import Bag, Shape, State
from tailrace.verify.history.versions import VersionCursor, VersionedTables

Compute = Callable[[Mapping[str, pa.Table], int], pa.Table]
"""From the rows of each table and the time to the view's rows."""


class QueryFollower:
    """The view at a cut. `not_unique` makes the error if two of its rows have the key with this text."""

    def __init__(
        self,
        compute: Compute,
        shape: Shape,
        base: VersionedTables,
        tables: Iterable[str],
        not_unique: Callable[[str], TailraceError],
    ) -> None:
        self._compute, self._shape, self._base, self._not_unique = compute, shape, base, not_unique
        self._tables = sorted(tables)
        self._cursors = {name: VersionCursor(base[name]) for name in self._tables}
        schema = pa.schema([(column(i), types.arrow(c.type)) for i, c in enumerate(shape.columns)])
        self._codec, self._result = RowCodec(schema), schema.empty_table()
        self._bag = Bag(shape)
        self._at: list[int] | None = None
        self.rows: State = {}
        self.computed = 0

    def move_to(self, cut: float, time: int | None = None) -> Iterable[str]:
        number = self._base.number(cut)
        at = [time or 0, *(self._base[name].changes_before(number) for name in self._tables)]
        if at == self._at:
            return ()
        self._at = at
        before = self._result
        result = self._compute({name: cursor.move_to(number) for name, cursor in self._cursors.items()}, time or 0)
        self._result = result.rename_columns(self._codec.schema.names).cast(self._codec.schema)
        self.computed += 1
        return self._apply(_difference(self._codec, before, self._result))

    def _apply(self, difference: list[tuple[list[Any], int]]) -> Iterable[str]:
        """Changes the rows by a difference, and returns the keys of the changed ones."""
        keys: dict[str, None] = {}
        for values, copies in sorted(difference, key=lambda change: change[1] > 0):  # deleted rows first
            row = self._shape.to_plain(values)
            record = self._shape.record_text(row)
            keys[record] = None
            if self._shape.key is None:
                self._bag.add(row, copies)
            elif copies < 0:
                del self.rows[record]
            elif copies > 1 or record in self.rows:
                raise self._not_unique(record)
            else:
                self.rows[record] = self._shape.named(row)
        if self._shape.key is None:
            for record in keys:
                value = self._bag.value(record)
                if value is None:
                    self.rows.pop(record, None)
                else:
                    self.rows[record] = value
        return keys


def _difference(codec: RowCodec, before: pa.Table, after: pa.Table) -> list[tuple[list[Any], int]]:
    """The rows of two results that differ, each with its number of copies after minus before."""
    rows = [codec.encode_columns(result.columns, result.num_rows) for result in (before, after)]
    ids = pa.chunked_array(rows).combine_chunks().dictionary_encode()
    numbers, distinct = ids.indices.to_numpy(), len(ids.dictionary)
    old, new = numbers[: before.num_rows], numbers[before.num_rows :]
    copies = np.bincount(new, minlength=distinct) - np.bincount(old, minlength=distinct)
    return [*_rows_of(before, old, copies, -1), *_rows_of(after, new, copies, 1)]


def _rows_of(result: pa.Table, numbers: np.ndarray, copies: np.ndarray, sign: int) -> Iterator[tuple[list[Any], int]]:
    """Each distinct row of a result whose copies changed in the direction of `sign`."""
    found, first = np.unique(numbers, return_index=True)
    chosen = np.sign(copies[found]) == sign
    columns = [c.to_pylist() for c in result.take(pa.array(first[chosen])).columns]
    for values, number in zip(zip(*columns, strict=True), found[chosen].tolist(), strict=True):
        yield list(values), int(copies[number])
