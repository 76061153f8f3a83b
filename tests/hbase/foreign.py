"""A client of HBase that knows nothing of Tailrace: it writes at random, and its scan is what a table should show."""

from __future__ import annotations

import random
import struct
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any
from uuid import uuid4

from thrift_client import Client, hbase, tcolumn, tput

from tailrace.codec.schema import TableDef
from tailrace.store.base import Cut
from tailrace.store.hbase.hbase_store import HbaseStore
from tailrace.types import Column

TABLE = TableDef(
    9,
    "foreign",
    (Column("id", "int"), Column("a", "bigint"), Column("b", "string"), Column("c", "double")),
    ("id",),
)
COLUMNS = "id=:key#binary, a=f:a#binary, b=f:b#string, c=g:c#binary"
ROWS = [struct.pack(">i", number) for number in (-1, 0, 1, 7, 300)]
SPAN = 12  # timestamps
KINDS = hbase.TDeleteType

Row = tuple[Any, ...]


class ForeignClient:
    """Writes to one table. Timestamps are those of the server, or from `base` to `base + SPAN`, in any order."""

    def __init__(self, client: Client, table: str, rng: random.Random, base: int) -> None:
        self.client, self.table, self._rng, self.base = client, table, rng, base

    def write(self) -> None:
        """One random change of one row."""
        rng = self._rng
        row = rng.choice(ROWS)
        timestamp = None if rng.random() < 0.1 else self.base + rng.randrange(SPAN)
        action = rng.choice(
            ["put", "put", "put", "put", "version", "column", "family", "family version", "row", "both"]
        )
        column, family = rng.choice(["f:a", "f:b", "g:c", "f:other"]), rng.choice("fg")
        if action == "put":
            self.client.put(self.table, row, self._cells(), timestamp)
        elif action == "version":
            self.client.delete(self.table, row, [column], KINDS.DELETE_COLUMN, timestamp)
        elif action == "column":
            self.client.delete(self.table, row, [column], KINDS.DELETE_COLUMNS, timestamp)
        elif action == "family":
            self.client.delete(self.table, row, [family], KINDS.DELETE_FAMILY, timestamp)
        elif action == "family version":
            self.client.delete(self.table, row, [family], KINDS.DELETE_FAMILY_VERSION, timestamp or self.base)
        elif action == "row":
            self.client.delete(self.table, row, timestamp=timestamp)
        else:
            put = hbase.TMutation(put=tput(row, {"f:a": self._cell("f:a")}, timestamp))
            columns = [tcolumn("f:b", timestamp)]
            delete = hbase.TDelete(row=row, columns=columns, deleteType=KINDS.DELETE_COLUMNS)
            mutations = [put, hbase.TMutation(deleteSingle=delete)]
            self.client.mutateRow(self.table.encode(), hbase.TRowMutations(row=row, mutations=mutations))

    def _cells(self) -> dict[str, bytes]:
        chosen = self._rng.sample(["f:a", "f:b", "g:c", "f:other"], self._rng.randint(1, 3))
        return {column: self._cell(column) for column in chosen}

    def _cell(self, column: str) -> bytes:
        number = self._rng.randrange(-100, 100)
        return {"f:a": struct.pack(">q", number), "g:c": struct.pack(">d", number / 4)}.get(
            column, str(number).encode()
        )

    def rows(self) -> list[Row]:
        """What a plain scan shows."""
        rows = []
        for result in self.client.scan(self.table):
            cells = {cell.family + b":" + cell.qualifier: cell.value for cell in result.columnValues}
            a, b, c = (cells.get(name) for name in (b"f:a", b"f:b", b"g:c"))
            rows.append(
                (
                    struct.unpack(">i", result.row)[0],
                    None if a is None else struct.unpack(">q", a)[0],
                    None if b is None else b.decode(),
                    None if c is None else struct.unpack(">d", c)[0],
                )
            )
        return sorted(rows)


@contextmanager
def foreign_table(client: Client, versions: int = 1, splits: tuple[bytes, ...] = (), scope: int = 0) -> Iterator[str]:
    """A table of HBase for the time of a test. Unless told otherwise, it is not replicated."""
    name = f"t{uuid4().hex[:8]}"
    client.create_table(name, ("f", "g"), scope, splits, versions)
    try:
        yield name
    finally:
        client.drop_table(name)


def attach(store: HbaseStore, table: str, definition: TableDef = TABLE) -> None:
    options = {"hbase.table": table, "hbase.columns": COLUMNS}
    store.change_documents(store.new_table(definition, options))


def shown(store: HbaseStore, cut: Cut, table: TableDef = TABLE) -> list[Row]:
    """The rows at a cut."""
    batches = (b for n in range(store.nodes) for b in store.rows(table, n, cut, range(len(table.columns))))
    return sorted(tuple(row.values()) for batch in batches for row in batch.to_pylist())


def logged(store: HbaseStore, start: Cut, end: Cut, table: TableDef = TABLE) -> Counter[Row]:
    """The sum of the delta between two cuts."""
    total: Counter[Row] = Counter()
    for node in range(store.nodes):
        for batch in store.deltas(table, node, start, end, range(len(table.columns))):
            for row in batch.to_pylist():
                total[tuple(row.values())[:-1]] += row["_weight"]
    return Counter({row: weight for row, weight in total.items() if weight})
