"""How the rows of a table are stored after its columns were changed.

A layout only grows. Each column has a position for ever: ADD COLUMN appends one, DROP COLUMN hides one (new rows store
NULL there), RENAME COLUMN changes a name. So rows, log entries and plans that were written before stay valid:

    row of the first layout    null bits | ...             (`codec/rows.py`)
    row of a later layout      marker | number of columns (uint16) | null bits | ...

The marker is the beginning of null bits in which the first key column is NULL. A key is never NULL, so no row of the
first layout begins like this. A row with fewer columns than the layout has the defaults of the missing ones.
"""

from __future__ import annotations

import struct
from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import pyarrow as pa

from tailrace import types
from tailrace.codec import arrays
from tailrace.codec.arrays import LARGE_BINARY, Vector
from tailrace.codec.rows import RowCodec
from tailrace.codec.text import value_of
from tailrace.errors import Corrupt, TableAltered, Unsupported
from tailrace.types import Column

_COUNT = struct.Struct("<H")
MOST_COLUMNS = 2**16 - 1


@dataclass(frozen=True)
class StoredColumn:
    """A column at its position. `default` is the text of its value in rows that lack it (None: NULL)."""

    name: str
    type: str
    default: str | None = None
    dropped: bool = False

    @property
    def value(self) -> Any:
        """The default as a Python value."""
        kind = types.arrow(self.type)
        return None if self.default is None else pa.scalar(value_of(self.default, kind), kind).as_py()


@dataclass(frozen=True)
class Layout:
    """All columns that a table ever had, by position. Rows without a marker have the `first` ones.

    `version` grows with every change, also of names: a writer that knows an older version is detected.
    """

    columns: tuple[StoredColumn, ...]
    first: int
    version: int = 0

    def __post_init__(self) -> None:
        """Raises ValueError if a stored layout is inconsistent."""
        names = [c.name for c in self.columns if not c.dropped]
        if not 0 < self.first <= len(self.columns) <= MOST_COLUMNS or self.version < 0 or len({*names}) < len(names):
            raise ValueError("its columns, their number or its version are invalid")
        for column in self.columns:
            try:
                _ = column.value
            except (ValueError, ArithmeticError, Unsupported, RecursionError, pa.ArrowException):
                raise ValueError(f"the type or default of column {column.name!r} is invalid") from None

    @classmethod
    def of(cls, columns: tuple[Column, ...], defaults: Mapping[str, str] | None = None) -> Layout:
        """The layout of a table that was never changed."""
        stored = tuple(StoredColumn(c.name, c.type, (defaults or {}).get(c.name)) for c in columns)
        return cls(stored, len(columns))

    @property
    def stored(self) -> tuple[Column, ...]:
        """The columns by position. A dropped one has a name that no user can give."""
        return tuple(Column(f"\0{i}" if c.dropped else c.name, c.type) for i, c in enumerate(self.columns))

    @property
    def visible(self) -> tuple[Column, ...]:
        return tuple(Column(c.name, c.type) for c in self.columns if not c.dropped)

    def added(self, columns: tuple[StoredColumn, ...]) -> Layout:
        return replace(self, columns=(*self.columns, *columns), version=self.version + 1)

    def changed(self, position: int, **changes: Any) -> Layout:
        """The layout with another name of one column, or with one column dropped."""
        columns = list(self.columns)
        columns[position] = replace(columns[position], **changes)
        return replace(self, columns=tuple(columns), version=self.version + 1)


def is_marked(row: bytes | memoryview, key: int) -> bool:
    """Whether a row has a marker; `key` is the position of the first key column."""
    return len(row) > key >> 3 and bool(row[key >> 3] >> (key & 7) & 1)


class LayoutCodec:
    """Encodes rows of a layout that has grown; decodes rows of this layout and of all earlier ones."""

    def __init__(self, table: str, layout: Layout, key: int) -> None:
        self.schema = types.schema(layout.stored)
        self._table, self._layout = table, layout
        self._key, self._byte, self._bit = key, key >> 3, key & 7
        self._whole = RowCodec(self.schema)
        self._codecs = {len(layout.columns): self._whole}
        self._defaults = [(f.name, c.value) for f, c in zip(self.schema, layout.columns, strict=True)]
        self._mark = bytes(self._byte) + bytes([1 << self._bit])
        self._body = len(self._mark) + _COUNT.size

    def encode(self, batch: pa.RecordBatch | pa.Table) -> pa.LargeBinaryArray:
        """The encoded rows of a batch that has all stored columns."""
        mark = pa.scalar(self._mark + _COUNT.pack(len(self.schema)), LARGE_BINARY)
        return arrays.join_cells([mark, self._whole.encode(batch)])

    def decode(self, rows: pa.LargeBinaryArray | pa.BinaryArray | list[bytes]) -> pa.RecordBatch:
        """All stored columns. `TableAltered` if a row has a newer layout, `Corrupt` if the bytes are not rows."""
        if isinstance(rows, list):
            rows = pa.array(rows, LARGE_BINARY)
        counts = self._counts(rows)
        parts, places = [pa.RecordBatch.from_pylist([], schema=self.schema)], []
        edges, data = arrays.offsets(rows), arrays.content(rows)
        for count in np.unique(counts).tolist():
            at = np.flatnonzero(counts == count)
            skipped = self._body if count > self._layout.first else 0
            columns = self._codec(count).decode_spans(data, edges[at] + skipped, edges[at + 1])
            parts.append(self.complete(columns, len(at)))
            places.append(at)
        batch = pa.concat_batches(parts)
        return batch if len(places) < 2 else batch.take(pa.array(np.argsort(np.concatenate(places))))

    def decode_one(self, row: bytes | memoryview) -> dict[str, Any]:
        """One row as Python values by the names of the stored columns."""
        count = self._layout.first
        if is_marked(row, self._key):
            if len(row) < self._body:
                raise Corrupt(where="a stored row", reason="it ends in its marker")
            (count,) = _COUNT.unpack_from(row, len(self._mark))
            self._require_known(count)
            row = row[self._body :]
        values = self._codec(count).decode_one(row)
        values.update(self._defaults[count:])
        return values

    def complete(self, columns: list[pa.Array], rows: int) -> pa.RecordBatch:
        """A batch of all stored columns from the first ones, with defaults in the others."""
        missing = self._defaults[len(columns) :]
        filled = [pa.repeat(pa.scalar(value, self.schema.field(name).type), rows) for name, value in missing]
        return pa.RecordBatch.from_arrays([*columns, *filled], schema=self.schema)

    def _codec(self, count: int) -> RowCodec:
        if count not in self._codecs:
            self._codecs[count] = RowCodec(pa.schema(list(self.schema)[:count]))
        return self._codecs[count]

    def _counts(self, rows: pa.LargeBinaryArray) -> Vector:
        """The number of columns of each row."""
        edges = arrays.offsets(rows)
        starts, lengths = edges[:-1], np.diff(edges)
        if np.any(lengths <= self._byte):
            raise Corrupt(where="a stored row", reason="a row is shorter than its null bits")
        counts = np.full(len(starts), self._layout.first)
        data = np.frombuffer(arrays.content(rows), np.uint8)
        marked = np.flatnonzero(data[starts + self._byte] >> self._bit & 1)
        if not len(marked):
            return counts
        if np.any(lengths[marked] < self._body):
            raise Corrupt(where="a stored row", reason="it ends in its marker")
        at = starts[marked] + len(self._mark)
        counts[marked] = data[at] + (data[at + 1].astype(np.int64) << 8)
        for count in np.unique(counts[marked]).tolist():
            self._require_known(count)
        return counts

    def _require_known(self, count: int) -> None:
        if count > len(self.schema):
            raise TableAltered(table=self._table)
        if count <= self._layout.first:
            raise Corrupt(where="a stored row", reason=f"its marker has {count} columns, which no later layout has")
