"""Snapshots: tables and views at one cut, for as long as one likes, while epochs go on.

A snapshot is a pin: undo records and logs from its epoch on are kept until it is closed, and nothing else of it is in
anybody's way. No read of it holds a transaction of the store open for longer than the read itself.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack
from types import TracebackType
from typing import TYPE_CHECKING

import pyarrow as pa

from tailrace.catalog.catalog import Catalog
from tailrace.catalog.definition import ViewDef
from tailrace.catalog.pinned import pinned_relations
from tailrace.codec.schema import TableDef
from tailrace.database.query import answer
from tailrace.database.table import TableReads
from tailrace.database.view import View
from tailrace.database.waiting import Fixed
from tailrace.errors import Ended
from tailrace.store.base import Past, Store
from tailrace.store.pins import Pin

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


class Snapshot:
    """Tables and views as the committed epoch had them when this was taken. Safe to use from several threads.

    Close it (`with` does) when done: until then, or until its process ends, the store keeps what it takes to
    go back there.
    """

    def __init__(
        self,
        store: Store,
        catalog: Catalog,
        spark: Callable[[], SparkSession],
        check: Callable[[], None],
        closed: Callable[[Snapshot], None],
    ) -> None:
        self._store, self._catalog, self._spark, self._checked, self._closed = store, catalog, spark, check, closed
        self._pasts: dict[int, Past] = {}
        self._guard = threading.Lock()  # of what is remembered of tables, and of the end
        self._held = ExitStack()
        pin, self._relations = self._held.enter_context(pinned_relations(store, catalog))
        self._pin: Pin | None = pin

    @property
    def epoch(self) -> int:
        """The epoch that it shows."""
        return self._here().epoch

    @property
    def position(self) -> int:
        """The last position that it covers: the number of the newest transaction in it."""
        return self._here().cut.position.number

    def table(self, name: str) -> SnapshotTable:
        self._here()
        return SnapshotTable(self, self._relations.table(name))

    def view(self, name: str) -> View:
        pin = self._here()

        def find() -> ViewDef:
            self._here()
            return self._relations.view(name)

        return View(self._store, find(), Fixed(self._store, pin), find)

    def query(self, text: str) -> pa.Table:
        """Any SELECT over tables and views of the snapshot, run by Spark."""
        return answer(self._spark(), self._store, self._relations, text, self._here())

    def tables(self) -> list[str]:
        self._here()
        return sorted(self._relations.tables)

    def views(self) -> list[str]:
        self._here()
        return sorted(self._relations.views)

    def close(self) -> None:
        """Let go of all that is kept for it; to be called as often as one likes."""
        with self._guard:
            self._pin = None
            self._pasts.clear()
            self._held.close()
        self._closed(self)

    def __enter__(self) -> Snapshot:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def __repr__(self) -> str:
        return f"Snapshot({self._store.path!r}, {'ended' if self._pin is None else f'epoch {self._pin.epoch}'})"

    def _here(self) -> Pin:
        self._checked()
        if (pin := self._pin) is None:
            raise Ended(what="snapshot")
        return pin

    def _rows(self, table: TableDef, keys: Sequence[bytes]) -> dict[bytes, bytes]:
        """Rows by key; what a table was is remembered, so that the next read costs only what is logged until then."""
        with self._guard:
            past = self._pasts.setdefault(table.id, Past(self._here().cut))
            found = self._store.get(table, keys, past)
        self._still(table)
        return found

    def _still(self, table: TableDef) -> None:
        """Refuse to read a table that was dropped meanwhile: its rows are gone, also from here."""
        self._here()
        self._catalog.require(table)


class SnapshotTable(TableReads):
    """A table at the cut of a snapshot."""

    def __init__(self, snapshot: Snapshot, definition: TableDef) -> None:
        super().__init__(snapshot._store, definition, lambda: snapshot._still(definition), snapshot._here().cut)
        self._snapshot = snapshot

    def batches(self) -> Iterator[pa.RecordBatch]:
        """All rows, a batch at a time."""
        yield from super().batches()
        self._check()

    def _found(self, keys: Sequence[bytes]) -> dict[bytes, bytes]:
        return self._snapshot._rows(self._def, keys)
