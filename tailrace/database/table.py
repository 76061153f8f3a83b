"""Reads and writes of tables: the classes behind `db.table()`, `snapshot.table()` and `transaction.table()`."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator, Mapping, Sequence
from itertools import groupby
from typing import Any, Generic, TypeVar

import pyarrow as pa

from tailrace import types
from tailrace.codec.convert import Rows, array_of, key_values, to_batch
from tailrace.codec.schema import TableDef
from tailrace.database.altered import write_current
from tailrace.errors import NullKey, TableAltered
from tailrace.store.base import Change, Cut, Store, Written
from tailrace.types import Column

W = TypeVar("W")
FindNewest = Callable[[], TableDef]


class TableSchema:
    """A table's name, primary key and columns.

    `find_newest` returns the newest definition of the table (default: `definition`). It raises if the table may no
    longer be used: it was dropped, or the database or snapshot is closed.
    """

    _follows = True  # whether the definition follows ALTER TABLE

    def __init__(self, definition: TableDef, find_newest: FindNewest | None) -> None:
        self._def, self._find_newest = definition, find_newest or (lambda: definition)

    def _current(self) -> TableDef:
        """The definition to use now. Raises if the table may no longer be used."""
        newest = self._find_newest()
        if self._follows:
            self._def = newest
        return self._def

    @property
    def name(self) -> str:
        return self._def.name

    @property
    def key(self) -> list[str]:
        """The names of the primary key's columns."""
        return list(self._current().key)

    @property
    def columns(self) -> list[Column]:
        return list(self._current().columns)

    @property
    def schema(self) -> pa.Schema:
        return self._current().schema

    @property
    def defaults(self) -> dict[str, Any]:
        """The values of columns that a new row lacks, where they are not NULL."""
        return dict(self._current().defaults)


def _key_batch(table: TableDef, keys: Sequence[Any]) -> pa.RecordBatch:
    rows = [key_values(table.name, table.key_schema, key) for key in keys]
    arrays = [array_of([row[i] for row in rows], c.name, types.arrow(c.type)) for i, c in enumerate(table.key_schema)]
    return pa.RecordBatch.from_arrays(arrays, names=list(table.key))


class TableReads(TableSchema):
    """Reads of a table: the newest rows, or those at `cut`."""

    def __init__(
        self, store: Store, definition: TableDef, find_newest: FindNewest | None = None, cut: Cut | None = None
    ) -> None:
        super().__init__(definition, find_newest)
        self._store, self._cut = store, cut

    def get(self, key: Any) -> dict[str, Any] | None:
        """The row under a key (a tuple if composite), or None."""
        table = self._current()
        values = key_values(table.name, table.key_schema, key)
        encoded = self._store.key_limit.shorten_one(table.keys.encode_one(values))
        rows = self._rows_by_key(table, [encoded])
        if encoded not in rows:
            return None
        try:
            return table.decode_one_if_known(rows[encoded])
        except TableAltered:  # after `_current`
            row: dict[str, Any] = self._decode(table, [rows[encoded]]).to_pylist()[0]
            return row

    def get_many(self, keys: Sequence[Any]) -> pa.Table:
        """The rows under these keys, in the order of the keys. Missing keys are skipped."""
        table = self._current()
        batch = _key_batch(table, keys)
        encoded_keys = table.keys.encode(table.key_columns(batch), batch.num_rows)
        stored_keys = self._store.key_limit.shorten(encoded_keys).to_pylist()
        rows = self._rows_by_key(table, stored_keys)
        return pa.Table.from_batches([self._decode(table, [rows[k] for k in stored_keys if k in rows])])

    def scan(self) -> pa.Table:
        """All rows, in no particular order."""
        batches = list(self.batches())
        return pa.Table.from_batches(batches, schema=batches[0].schema if batches else self.schema)

    def batches(self) -> Iterator[pa.RecordBatch]:
        """All rows, a batch at a time."""
        table = self._current()
        for node in range(self._store.nodes):
            yield from self._store.rows(table, node, self._cut, table.slots)

    def _rows_by_key(self, table: TableDef, keys: Sequence[bytes]) -> dict[bytes, bytes]:
        return self._store.get(table, keys)

    def _decode(self, table: TableDef, rows: list[bytes]) -> pa.RecordBatch:
        """The columns of rows that may have been written after an ALTER TABLE that the definition does not know."""
        try:
            return table.to_visible(table.decode_if_known(rows))
        except TableAltered:
            return table.to_visible(self._find_newest().decode(rows))


class TableWrites(TableSchema, ABC, Generic[W]):
    """Writes to a table. The subclass decides whether `_write` commits at once or collects, and what it returns (W)."""

    @abstractmethod
    def _write(self, changes: list[Change]) -> W: ...

    def put(self, row: Mapping[str, Any]) -> W:
        """Insert or replace one row. An omitted column gets its default, or NULL if it has none."""
        return self.put_many([row])

    def put_many(self, rows: Rows) -> W:
        """Insert or replace rows atomically: dicts, a pyarrow Table or RecordBatch, or a pandas or Spark DataFrame.

        A Spark DataFrame is read a batch at a time; its rows are held in memory until the last one is written.
        """
        table = self._current()
        batches = _spark_batches(rows, table) if _is_spark_frame(rows) else [to_batch(table, rows)]
        return self._write([Change(table, "put", batch) for batch in batches])

    def update(self, row: Mapping[str, Any]) -> W:
        """Change only the given columns of one row. Raises `NoSuchRow` if its key does not exist."""
        return self.update_many([row])

    def update_many(self, rows: Sequence[Mapping[str, Any]]) -> W:
        """Partial updates, applied atomically. Rows may give different columns."""
        changes, table, first = [], self._current(), 1
        # Only adjacent rows with the same columns are grouped: the order of updates is kept, and the last one wins.
        for _, run in groupby(rows, key=lambda row: sorted(map(str, row))):
            group = list(run)
            names = [n for n in table.schema.names if n.lower() in {str(c).lower() for c in group[0]}]
            for key in table.key:
                if key not in names:
                    raise NullKey(row=first, column=key, table=table.name)
            batch = to_batch(table, group, names, first)
            first += len(group)
            changes.append(Change(table, "update", batch))
        return self._write(changes)

    def delete(self, key: Any) -> W:
        """Delete one row if it exists. A composite key is a tuple."""
        return self.delete_many([key])

    def delete_many(self, keys: Sequence[Any]) -> W:
        """Delete rows atomically. Missing keys are skipped."""
        table = self._current()
        return self._write([Change(table, "delete", _key_batch(table, keys))])


def _is_spark_frame(rows: Any) -> bool:
    """Whether the rows are a Spark DataFrame, of Spark itself or of Spark Connect; does not import PySpark."""
    kinds = type(rows).__mro__
    return any(kind.__name__ == "DataFrame" and kind.__module__.startswith("pyspark.sql.") for kind in kinds)


def _spark_batches(frame: Any, table: TableDef) -> Iterator[pa.RecordBatch]:
    from tailrace.spark.given import given_batches

    return given_batches(frame, table)


class Table(TableReads, TableWrites[Written]):
    """Rows under a primary key. Every write is one durable transaction, atomic for all its rows.

    `admit` is called before each write. It may sleep to throttle the writer while views are far behind.
    """

    def __init__(
        self,
        store: Store,
        definition: TableDef,
        find_newest: FindNewest | None = None,
        admit: Callable[[], None] = lambda: None,
    ) -> None:
        super().__init__(store, definition, find_newest)
        self._admit = admit

    def _write(self, changes: list[Change]) -> Written:
        self._admit()
        return write_current(self._store, changes, lambda table: self._find_newest())
