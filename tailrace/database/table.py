"""A table as users write and read it."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator, Mapping, Sequence
from itertools import groupby
from typing import Any, Generic, TypeVar

import pyarrow as pa

from tailrace.codec.convert import Rows, array_of, key_values, to_batch
from tailrace.codec.schema import TableDef
from tailrace.errors import Corrupt, NullKey
from tailrace.store.base import Change, Cut, Store, Written
from tailrace.types import Column

W = TypeVar("W")


class Described:
    """What a table is: its name, key and columns."""

    def __init__(self, definition: TableDef) -> None:
        self._def = definition

    @property
    def name(self) -> str:
        return self._def.name

    @property
    def key(self) -> list[str]:
        """The names of the primary key's columns."""
        return list(self._def.key)

    @property
    def columns(self) -> list[Column]:
        return list(self._def.columns)

    @property
    def schema(self) -> pa.Schema:
        return self._def.schema

    @property
    def _key_columns(self) -> list[Column]:
        return [self._def.columns[p] for p in self._def.positions]

    def _keys(self, keys: Sequence[Any]) -> pa.RecordBatch:
        listed = [key_values(self.name, self._key_columns, key) for key in keys]
        arrays = [
            array_of([v[i] for v in listed], c.name, self.schema.field(c.name).type)
            for i, c in enumerate(self._key_columns)
        ]
        return pa.RecordBatch.from_arrays(arrays, names=list(self._def.key))


class TableReads(Described):
    """A table's rows: the newest, or those at a cut. `check` refuses what may not be read any more."""

    def __init__(
        self, store: Store, definition: TableDef, check: Callable[[], None] = lambda: None, cut: Cut | None = None
    ) -> None:
        super().__init__(definition)
        self._store, self._check, self._cut = store, check, cut

    def get(self, key: Any) -> dict[str, Any] | None:
        """The row under a key (a tuple if composite), or None."""
        values = key_values(self.name, self._key_columns, key)
        encoded = self._store.key_limit.shorten_one(self._def.keys.encode_one(values))
        found = self._found([encoded])
        if encoded not in found:
            return None
        try:
            return self._def.rows.decode_one(found[encoded])
        except Corrupt as error:
            raise Corrupt(where=f"a row of table {self.name!r}", reason=error.reason) from error

    def get_many(self, keys: Sequence[Any]) -> pa.Table:
        """The rows under these keys, in their order, those that exist."""
        batch = self._keys(keys)
        whole = self._def.keys.encode(self._def.key_columns(batch), batch.num_rows)
        encoded = self._store.key_limit.shorten(whole).to_pylist()
        found = self._found(encoded)
        return pa.Table.from_batches([self._def.decode([found[k] for k in encoded if k in found])])

    def scan(self) -> pa.Table:
        """All rows, in no particular order."""
        return pa.Table.from_batches(self.batches(), schema=self.schema)

    def batches(self) -> Iterator[pa.RecordBatch]:
        """All rows, a batch at a time."""
        self._check()
        everything = range(len(self._def.columns))
        for node in range(self._store.nodes):
            yield from self._store.rows(self._def, node, self._cut, everything)

    def _found(self, keys: Sequence[bytes]) -> dict[bytes, bytes]:
        self._check()
        return self._store.get(self._def, keys)


class TableWrites(Described, ABC, Generic[W]):
    """The ways to write to a table; what becomes of a write is the subclass's matter, and what it returns."""

    @abstractmethod
    def _write(self, changes: list[Change]) -> W: ...

    def put(self, row: Mapping[str, Any]) -> W:
        """Insert or replace one row; columns not given become NULL."""
        return self.put_many([row])

    def put_many(self, rows: Rows) -> W:
        """Insert or replace rows, all or none: dicts, a pyarrow Table or RecordBatch, or a pandas DataFrame."""
        return self._write([Change(self._def, "put", to_batch(self._def, rows))])

    def update(self, row: Mapping[str, Any]) -> W:
        """Change only the given columns of one row; `NoSuchRow` if its key is not there."""
        return self.update_many([row])

    def update_many(self, rows: Sequence[Mapping[str, Any]]) -> W:
        """Partial updates, all or none. Rows may give different columns."""
        changes = []
        for _, run in groupby(rows, key=lambda row: sorted(map(str, row))):  # in their order: the last one wins
            group = list(run)
            names = [n for n in self._def.schema.names if n.lower() in {str(c).lower() for c in group[0]}]
            for key in self._def.key:
                if key not in names:
                    raise NullKey(row=0, column=key, table=self.name)
            batch = to_batch(self._def, group, names)
            changes.append(Change(self._def, "update", batch))
        return self._write(changes)

    def delete(self, key: Any) -> W:
        """Delete one row, if it is there. A composite key is a tuple."""
        return self.delete_many([key])

    def delete_many(self, keys: Sequence[Any]) -> W:
        """Delete rows, all in one transaction; keys that are not there are passed over."""
        return self._write([Change(self._def, "delete", self._keys(keys))])


class Table(TableReads, TableWrites[Written]):
    """Rows under a primary key. Every write is one durable transaction, atomic for all its rows.

    `admit` is called before each write: it may let it wait, so that views can follow.
    """

    def __init__(
        self,
        store: Store,
        definition: TableDef,
        check: Callable[[], None] = lambda: None,
        admit: Callable[[], None] = lambda: None,
    ) -> None:
        super().__init__(store, definition, check)
        self._admit = admit

    def _write(self, changes: list[Change]) -> Written:
        self._check()
        self._admit()
        return self._store.write(changes)
