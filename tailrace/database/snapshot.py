"""Snapshots: tables and views at one cut while epochs run.

A snapshot is a pin: the store retains undo records and logs from the pinned epoch on until the snapshot is closed.
Writers and epochs are not blocked. A store transaction is open only during a read, not for the life of the snapshot.
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
from tailrace.database.failed_views import require_built
from tailrace.database.table import TableReads
from tailrace.database.view import View
from tailrace.database.waiting import PinnedEpoch
from tailrace.errors import Ended
from tailrace.store.base import Past, Store
from tailrace.store.pins import Pin

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


class Snapshot:
    """Tables and views at the epoch that was committed when the snapshot was taken. Safe to use from several threads.

    Close it when done (`with` does): until then, or until its process ends, the store retains undo records and logs
    for it.
    """

    def __init__(
        self,
        store: Store,
        catalog: Catalog,
        spark: Callable[[], SparkSession],
        require_open_database: Callable[[], None],
        on_close: Callable[[Snapshot], None],
    ) -> None:
        self._store, self._catalog, self._spark = store, catalog, spark
        self._require_open_database, self._on_close = require_open_database, on_close
        self._pasts: dict[int, Past] = {}
        self._guard = threading.Lock()  # protects _pasts, and _pin while closing
        self._resources = ExitStack()
        pin, self._relations = self._resources.enter_context(pinned_relations(store, catalog))
        self._pin: Pin | None = pin

    @property
    def epoch(self) -> int:
        """The epoch that the snapshot shows."""
        return self._require_pin().epoch

    @property
    def position(self) -> int:
        """The last position that the snapshot covers: the number of its newest transaction."""
        return self._require_pin().cut.position.number

    def table(self, name: str) -> SnapshotTable:
        self._require_pin()
        return SnapshotTable(self, self._relations.table(name))

    def view(self, name: str) -> View:
        pin = self._require_pin()

        def find_definition() -> ViewDef:
            self._require_pin()
            return self._relations.view(name)

        return View(self._store, find_definition(), PinnedEpoch(self._store, pin), find_definition)

    def query(self, text: str) -> pa.Table:
        """Run a SELECT over tables and views of the snapshot with Spark."""
        from tailrace.database.query import SelectQuery, answer_query

        pin = self._require_pin()
        query = SelectQuery.parse(text)
        require_built(self._store, query.names)
        return answer_query(self._spark(), self._store, self._relations, query, pin.epoch, pin.cut)

    def tables(self) -> list[str]:
        self._require_pin()
        return sorted(self._relations.tables)

    def views(self) -> list[str]:
        self._require_pin()
        return sorted(self._relations.views)

    def close(self) -> None:
        """Release the pin. Closing twice is allowed."""
        with self._guard:
            self._pin = None
            self._pasts.clear()
            self._resources.close()
        self._on_close(self)

    def __enter__(self) -> Snapshot:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def __repr__(self) -> str:
        return f"Snapshot({self._store.path!r}, {'ended' if self._pin is None else f'epoch {self._pin.epoch}'})"

    def _require_pin(self) -> Pin:
        """Raises `Ended` if the snapshot is closed."""
        self._require_open_database()
        if (pin := self._pin) is None:
            raise Ended(what="snapshot")
        return pin

    def _rows_by_key(self, table: TableDef, keys: Sequence[bytes]) -> dict[bytes, bytes]:
        """Rows by key. Before-images from the log are cached per table, so a later read only scans newer entries."""
        with self._guard:
            past = self._pasts.setdefault(table.id, Past(self._require_pin().cut))
            rows = self._store.get(table, keys, past)
        self._find_newest(table)  # rows are missing if the table was dropped meanwhile
        return rows

    def _find_newest(self, table: TableDef) -> TableDef:
        """The newest definition, which decodes every row. Raises `UnknownName` if the table was dropped.

        The rows of a dropped table are deleted for snapshots, too.
        """
        self._require_pin()
        return self._catalog.newest(table)


class SnapshotTable(TableReads):
    """A table at the cut of a snapshot, with the columns that it had then."""

    _follows = False

    def __init__(self, snapshot: Snapshot, definition: TableDef) -> None:
        cut = snapshot._require_pin().cut
        super().__init__(snapshot._store, definition, lambda: snapshot._find_newest(definition), cut)
        self._snapshot = snapshot

    def batches(self) -> Iterator[pa.RecordBatch]:
        """All rows, a batch at a time."""
        yield from super().batches()
        self._current()  # raises: rows are incomplete if the table was dropped during the scan

    def _rows_by_key(self, table: TableDef, keys: Sequence[bytes]) -> dict[bytes, bytes]:
        return self._snapshot._rows_by_key(table, keys)
