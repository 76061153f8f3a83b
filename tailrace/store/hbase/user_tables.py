"""Reads and writes of the rows of a table in HBase itself, as any other client does.

HBase hides a put with a timestamp that a deletion has covered. Deletions therefore go only up to the newest timestamp
that was read in the row, not up to now: a put in the same millisecond stays visible.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import pyarrow as pa
import pyarrow.compute as pc

from tailrace.codec.sorting import order
from tailrace.errors import BadValue, NoSuchRow
from tailrace.store.base import Change
from tailrace.store.hbase.client import Cells, Client, Deletion, RowChange
from tailrace.store.hbase.mapping import MappedTable

LONGEST_ROW_KEY = 32_000  # bytes; HBase allows 32,767


class UserTable:
    """A table of HBase and how its rows are mapped."""

    def __init__(self, client: Client, mapped: MappedTable) -> None:
        self.mapped, self._table = mapped, mapped.table
        self._client, self._rows = client, client.table(mapped.mapping.table, None)

    # reading

    def get(self, rows: Sequence[bytes]) -> list[Cells]:
        """The cells of each row of HBase; none if the row does not exist."""
        return self._rows.get_many(rows, qualifiers=self.mapped.families)

    def scan(self, low: bytes = b"", high: bytes | None = None) -> Iterator[list[tuple[bytes, Cells]]]:
        return self._rows.scan(low, high, qualifiers=self.mapped.families)

    # writing

    def write(self, change: Change) -> int:
        """Writes the rows of a change, each in one step. Returns the number of rows."""
        keys = self.mapped.row_keys(self._table.key_columns(change.rows))
        self._refuse_long(keys)
        last = order(keys).lasts  # of several rows with the same key, the last one wins
        rows, names = change.rows.take(pa.array(last)), keys.take(pa.array(last)).to_pylist()
        if change.mode == "put":
            return self._put(rows, names, self.mapped.mapping.own)
        existing = self.get(names)
        if change.mode == "update":
            for i in sorted((int(last[n]) for n, cells in enumerate(existing) if not cells)):
                key = tuple(change.rows.column(k)[i].as_py() for k in self._table.key)
                raise NoSuchRow(table=self._table.name, key=key[0] if len(key) == 1 else key)
            return self._put(rows, names, False)
        chosen = [n for n, cells in enumerate(existing) if cells]
        if change.mode == "remove":
            chosen = self._unchanged(rows, names, existing, chosen)
        self._delete([(names[n], existing[n]) for n in chosen])
        return len(chosen)

    def _refuse_long(self, keys: pa.LargeBinaryArray) -> None:
        for row, size in enumerate(pc.binary_length(keys).to_pylist()):
            if size > LONGEST_ROW_KEY:
                value, limit = f"a key of {size:,} bytes", f"the limit of {LONGEST_ROW_KEY:,} bytes"
                raise BadValue(row=row + 1, column=", ".join(self._table.key), value=value, type=limit)

    def _delete(self, rows: Sequence[tuple[bytes, Cells]]) -> None:
        """Deletes all cells that were read."""
        if len(self.mapped.families) == 1:  # many rows in one call
            table = self._client.table(self.mapped.mapping.table, self.mapped.families[0])
            table.delete_many([Deletion(row, max(time for _, time in cells.values())) for row, cells in rows])
            return
        changes = []
        for row, cells in rows:
            newest: dict[bytes, int] = {}
            for column, (_, time) in cells.items():
                family = column.partition(b":")[0]
                newest[family] = max(time, newest.get(family, 0))
            changes.append(RowChange(row, {}, newest))
        self._rows.change_rows(changes)

    def _unchanged(
        self, rows: pa.RecordBatch, names: Sequence[bytes], existing: Sequence[Cells], chosen: Sequence[int]
    ) -> list[int]:
        """Those of the chosen rows that are still as given."""
        table = self._table
        found = table.to_visible(self.mapped.decode_rows([(names[n], existing[n]) for n in chosen]))
        given = table.rows.encode(table.to_stored(rows.take(pa.array(chosen, pa.int64())))).to_pylist()
        still = table.rows.encode(table.to_stored(found)).to_pylist()
        return [n for n, old, new in zip(chosen, given, still, strict=True) if old == new]

    def _put(self, rows: pa.RecordBatch, names: Sequence[bytes], marked: bool) -> int:
        """Puts the columns of `rows`, and deletes the cells of those that are NULL."""
        puts: list[dict[bytes, bytes]] = [{self.mapped.marker: b""} if marked else {} for _ in names]
        nulls: list[list[bytes]] = [[] for _ in names]
        stored = {column.name: position for position, column in enumerate(self._table.stored)}
        for name in rows.schema.names:
            cell = self.mapped.cells[stored[name]]
            if cell is None:
                continue
            for n, value in enumerate(self.mapped.encode_column(stored[name], rows.column(name)).to_pylist()):
                if value is None:
                    nulls[n].append(cell.column)
                else:
                    puts[n][cell.column] = value
        for n, put in enumerate(puts):
            if not put and nulls[n] and not marked:
                put[self.mapped.marker] = b""  # else the row might not exist
        deletes = self._cells_to_delete(names, nulls)
        self._rows.put_many([(names[n], puts[n]) for n in range(len(names)) if n not in deletes and puts[n]])
        self._rows.change_rows([RowChange(names[n], puts[n], times) for n, times in deletes.items()])
        return len(names)

    def _cells_to_delete(self, names: Sequence[bytes], nulls: Sequence[Sequence[bytes]]) -> dict[int, dict[bytes, int]]:
        """By row, the timestamps of cells whose columns become NULL."""
        rows = [n for n, columns in enumerate(nulls) if columns]
        if not rows:
            return {}
        columns = sorted({column for n in rows for column in nulls[n]})
        found = self._rows.get_many([names[n] for n in rows], qualifiers=columns)
        deletes = {}
        for n, cells in zip(rows, found, strict=True):
            if times := {column: cells[column][1] for column in nulls[n] if column in cells}:
                deletes[n] = times
        return deletes
