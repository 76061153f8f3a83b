"""The definition of a base table, with the codecs of its keys and rows."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import Any

import pyarrow as pa

from tailrace import types
from tailrace.codec.keys import KeyCodec
from tailrace.codec.rows import RowCodec
from tailrace.errors import Corrupt
from tailrace.types import Column


@dataclass(frozen=True)
class TableDef:
    """A base table: its columns, and the names of its primary key columns."""

    id: int
    name: str
    columns: tuple[Column, ...]
    key: tuple[str, ...]

    def __reduce__(self) -> tuple[Any, ...]:
        return TableDef, (self.id, self.name, self.columns, self.key)  # cached codecs are not pickled

    @cached_property
    def schema(self) -> pa.Schema:
        return types.schema(self.columns)

    @cached_property
    def positions(self) -> tuple[int, ...]:
        """The positions of the key columns among all columns."""
        names = [c.name for c in self.columns]
        return tuple(names.index(k) for k in self.key)

    @cached_property
    def keys(self) -> KeyCodec:
        return KeyCodec([self.schema.field(k).type for k in self.key])

    @cached_property
    def rows(self) -> RowCodec:
        return RowCodec(self.schema)

    def decode(self, rows: list[bytes]) -> pa.RecordBatch:
        """Decodes stored rows; `Corrupt` names this table if a row is damaged."""
        try:
            return self.rows.decode(rows)
        except Corrupt as error:
            raise Corrupt(where=f"a row of table {self.name!r}", reason=error.reason) from error

    def key_columns(self, batch: pa.RecordBatch) -> list[pa.Array]:
        return [batch.column(k) for k in self.key]
