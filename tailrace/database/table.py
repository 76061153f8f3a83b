"""Reads and writes of tables: the classes behind `db.table()`, `snapshot.table()` and `transaction.table()`."""

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


class TableSchema:
    """A table's name, primary key and columns."""

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

    def _key_batch(self, keys: Sequence[Any]) -> pa.RecordBatch:
        rows = [key_values(self.name, self._key_columns, key) for key in keys]
        arrays = [
            array_of([row[i] for row in rows], c.name, self.schema.field(c.name).type)
            for i, c in enumerate(self._key_columns)
        ]
        return pa.RecordBatch.from_arrays(arrays, names=list(self._def.key))


class TableReads(TableSchema):
    """Reads of a table: the newest rows, or those at `cut`.

    `require_readable` raises if the table may no longer be read: it was dropped, or the database or snapshot is closed.
    """

    def __init__(
        self,
        store: Store,
        definition: TableDef,
        require_readable: Callable[[], None] = lambda: None,
        cut: Cut | None = None,
    ) -> None:
        super().__init__(definition)
        self._store, self._require_readable, self._cut = store, require_readable, cut

    def get(self, key: Any) -> dict[str, Any] | None:
        """The row under a key (a tuple if composite), or None."""
        values = key_values(self.name, self._key_columns, key)
        encoded = self._store.key_limit.shorten_one(self._def.keys.encode_one(values))
        rows = self._rows_by_key([encoded])
        if encoded not in rows:
            return None
        try:
            return self._def.rows.decode_one(rows[encoded])
        except Corrupt as error:
            raise Corrupt(where=f"a row of table {self.name!r}", reason=error.reason) from error

    def get_many(self, keys: Sequence[Any]) -> pa.Table:
        """The rows under these keys, in the order of the keys. Missing keys are skipped."""
        batch = self._key_batch(keys)
        encoded_keys = self._def.keys.encode(self._def.key_columns(batch), batch.num_rows)
        stored_keys = self._store.key_limit.shorten(encoded_keys).to_pylist()
        rows = self._rows_by_key(stored_keys)
        return pa.Table.from_batches([self._def.decode([rows[k] for k in stored_keys if k in rows])])

    def scan(self) -> pa.Table:
        """All rows, in no particular order."""
        return pa.Table.from_batches(self.batches(), schema=self.schema)

    def batches(self) -> Iterator[pa.RecordBatch]:
        """All rows, a batch at a time."""
        self._require_readable()
        all_columns = range(len(self._def.columns))
        for node in range(self._store.nodes):
            yield from self._store.rows(self._def, node, self._cut, all_columns)

    def _rows_by_key(self, keys: Sequence[bytes]) -> dict[bytes, bytes]:
        self._require_readable()
        return self._store.get(self._def, keys)


class TableWrites(TableSchema, ABC, Generic[W]):
    """Writes to a table. The subclass decides whether `_write` commits at once or collects, and what it returns (W)."""

    @abstractmethod
    def _write(self, changes: list[Change]) -> W: ...

    def put(self, row: Mapping[str, Any]) -> W:
        """Insert or replace one row. Omitted columns become NULL."""
        return self.put_many([row])

    def put_many(self, rows: Rows) -> W:
        """Insert or replace rows atomically: dicts, a pyarrow Table or RecordBatch, or a pandas or Spark DataFrame.

        A Spark DataFrame is read a batch at a time; its rows are held in memory until the last one is written.
        """
        batches = _spark_batches(rows, self._def) if _is_spark_frame(rows) else [to_batch(self._def, rows)]
        return self._write([Change(self._def, "put", batch) for batch in batches])

    def update(self, row: Mapping[str, Any]) -> W:
        """Change only the given columns of one row. Raises `NoSuchRow` if its key does not exist."""
        return self.update_many([row])

    def update_many(self, rows: Sequence[Mapping[str, Any]]) -> W:
        """Partial updates, applied atomically. Rows may give different columns."""
        changes, first = [], 1
        # Only adjacent rows with the same columns are grouped: the order of updates is kept, and the last one wins.
        for _, run in groupby(rows, key=lambda row: sorted(map(str, row))):
            group = list(run)
            names = [n for n in self._def.schema.names if n.lower() in {str(c).lower() for c in group[0]}]
            for key in self._def.key:
                if key not in names:
                    raise NullKey(row=first, column=key, table=self.name)
            batch = to_batch(self._def, group, names, first)
            first += len(group)
            changes.append(Change(self._def, "update", batch))
        return self._write(changes)

    def delete(self, key: Any) -> W:
        """Delete one row if it exists. A composite key is a tuple."""
        return self.delete_many([key])

    def delete_many(self, keys: Sequence[Any]) -> W:
        """Delete rows atomically. Missing keys are skipped."""
        return self._write([Change(self._def, "delete", self._key_batch(keys))])


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
        require_readable: Callable[[], None] = lambda: None,
        admit: Callable[[], None] = lambda: None,
    ) -> None:
        super().__init__(store, definition, require_readable)
        self._admit = admit

    def _write(self, changes: list[Change]) -> Written:
        self._require_readable()
        self._admit()
        return self._store.write(changes)
