"""The definition of a base table, with the codecs of its keys and rows."""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any

import pyarrow as pa

from tailrace import types
from tailrace.codec.keys import KeyCodec
from tailrace.codec.layouts import Layout, LayoutCodec, is_marked
from tailrace.codec.rows import RowCodec
from tailrace.errors import Corrupt, TableAltered
from tailrace.types import Column


@dataclass(frozen=True)
class TableDef:
    """A base table: its columns, and the names of its primary key columns.

    `layout` says how rows are stored; None if the columns are stored as they are. Two kinds of batches follow from it:
    *visible* ones have the table's columns, *stored* ones have every column of the layout, at its position.
    """

    id: int
    name: str
    columns: tuple[Column, ...]
    key: tuple[str, ...]
    layout: Layout | None = None

    def __reduce__(self) -> tuple[Any, ...]:
        return TableDef, (self.id, self.name, self.columns, self.key, self.layout)  # cached codecs are not pickled

    @cached_property
    def schema(self) -> pa.Schema:
        """The schema of visible batches."""
        return types.schema(self.columns)

    @cached_property
    def stored(self) -> tuple[Column, ...]:
        """The stored columns by position."""
        return self.columns if self.layout is None else self.layout.stored

    @cached_property
    def stored_schema(self) -> pa.Schema:
        return types.schema(self.stored)

    @cached_property
    def slots(self) -> tuple[int, ...]:
        """The stored position of each column."""
        names = [c.name for c in self.stored]
        return tuple(names.index(c.name) for c in self.columns)

    @cached_property
    def positions(self) -> tuple[int, ...]:
        """The stored positions of the key columns."""
        names = [c.name for c in self.stored]
        return tuple(names.index(k) for k in self.key)

    @cached_property
    def key_schema(self) -> tuple[Column, ...]:
        """The key columns with their types."""
        return tuple(self.stored[p] for p in self.positions)

    @cached_property
    def keys(self) -> KeyCodec:
        return KeyCodec([types.arrow(c.type) for c in self.key_schema])

    @cached_property
    def rows(self) -> RowCodec | LayoutCodec:
        """The codec of stored batches."""
        if self.layout is None or len(self.layout.columns) == self.layout.first:
            return RowCodec(self.stored_schema)
        return LayoutCodec(self.name, self.layout, self.positions[0])

    @cached_property
    def defaults(self) -> dict[str, Any]:
        """The values of columns that a new row lacks, where they are not NULL."""
        stored = () if self.layout is None else self.layout.columns
        return {c.name: c.value for c in stored if c.default is not None and not c.dropped}

    @property
    def version(self) -> int:
        """The version of the layout. Rows may be written only while the store has the same one."""
        return 0 if self.layout is None else self.layout.version

    @property
    def is_plain(self) -> bool:
        """Whether stored batches are visible batches."""
        return self.columns == self.stored

    def with_layout(self, layout: Layout | None) -> TableDef:
        """This table as another layout stores it, with the columns visible there and the same key."""
        if layout is None:
            return self
        key = tuple(layout.stored[p].name for p in self.positions)
        return TableDef(self.id, self.name, layout.visible, key, layout)

    def known_at(self, width: int) -> TableDef:
        """This table with only those columns that it had when its layout had `width` columns."""
        kept = tuple(c for c, slot in zip(self.columns, self.slots, strict=True) if slot < width)
        return self if kept == self.columns else replace(self, columns=kept)

    def decode(self, rows: list[bytes]) -> pa.RecordBatch:
        """Decodes rows to a stored batch. `Corrupt` names this table if a row is damaged.

        The caller knows that no row has a newer layout: the layout was read in or after the transaction of the rows.
        """
        try:
            return self.decode_if_known(rows)
        except TableAltered:
            where = f"a row of table {self.name!r}"
            raise Corrupt(where=where, reason="its key is NULL, or its layout is unknown") from None

    def decode_if_known(self, rows: list[bytes]) -> pa.RecordBatch:
        """As `decode`, but raises `TableAltered` if a row has a newer layout."""
        key = self.positions[0]
        try:
            batch = self.rows.decode(rows)
        except Corrupt as error:
            if isinstance(self.rows, RowCodec) and any(is_marked(row, key) for row in rows):
                raise TableAltered(table=self.name) from None
            raise Corrupt(where=f"a row of table {self.name!r}", reason=error.reason) from error
        if batch.column(key).null_count:
            raise TableAltered(table=self.name)
        return batch

    def decode_one_if_known(self, row: bytes) -> dict[str, Any]:
        """One row as the values of the columns. The same errors as `decode_if_known`."""
        if isinstance(self.rows, RowCodec) and is_marked(row, self.positions[0]):
            raise TableAltered(table=self.name)
        try:
            values = self.rows.decode_one(row)
        except Corrupt as error:
            raise Corrupt(where=f"a row of table {self.name!r}", reason=error.reason) from error
        return values if self.is_plain else {c.name: values[c.name] for c in self.columns}

    def to_visible(self, batch: pa.RecordBatch) -> pa.RecordBatch:
        """The table's columns of a stored batch, which a later layout may have written."""
        if batch.schema.names == self.schema.names:
            return batch
        return pa.RecordBatch.from_arrays([batch.column(slot) for slot in self.slots], schema=self.schema)

    def to_stored(self, batch: pa.RecordBatch) -> pa.RecordBatch:
        """A visible batch as stored columns, with NULL in dropped ones."""
        if self.is_plain:
            return batch
        given = set(batch.schema.names)
        columns = [
            batch.column(f.name) if f.name in given else pa.nulls(batch.num_rows, f.type) for f in self.stored_schema
        ]
        return pa.RecordBatch.from_arrays(columns, schema=self.stored_schema)

    def key_columns(self, batch: pa.RecordBatch) -> list[pa.Array]:
        return [batch.column(k) for k in self.key]
