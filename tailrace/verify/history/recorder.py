"""Records every state of views, epoch by epoch, and every change of their tables, while writers and epochs continue.

The recorder follows the committed epochs with a pin, so the store retains everything it has not read yet. Undo records
give the keys that an epoch changed, shards give their values at that epoch, and the log gives the table changes. The
recorder blocks nobody, but the retained data takes disk space if it falls behind.
"""

from __future__ import annotations

import threading
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa

from tailrace import types
from tailrace.catalog.catalog import Catalog, Relations
from tailrace.catalog.definition import ViewDef
from tailrace.catalog.view_text import known_sql
from tailrace.codec.rows import RowCodec
from tailrace.codec.schema import TableDef
from tailrace.codec.text import to_json as as_text
from tailrace.codec.weighted import split
from tailrace.delta import WEIGHT
from tailrace.errors import StoreError
from tailrace.plan.nodes import to_json
from tailrace.store.base import Cut, Store
from tailrace.store.commits import committed_between
from tailrace.store.pins import Follower, Pin, committed_pin, following
from tailrace.verify.history.history_file import Header, Line, RecordedView, Writer
from tailrace.verify.planned import leaves_ties_open

POLL_SECONDS = 0.05  # between checks for new epochs
BATCH_ROWS = 10_000


class Recording:
    """A recording in progress."""

    def __init__(
        self,
        store: Store,
        catalog: Catalog,
        views: Sequence[ViewDef],
        tables: Sequence[TableDef],
        follower: Follower,
        writer: Writer,
    ) -> None:
        self._store, self._catalog, self._views, self._follower, self._writer = store, catalog, views, follower, writer
        self._pin = follower.pin
        self._tables = {t.id: t for t in tables}
        self._codecs = {view.name: RowCodec(types.schema(view.columns)) for view in views}
        self.epochs = 0
        """The number of epochs recorded after the first one."""

    @property
    def epoch(self) -> int:
        """The last epoch recorded."""
        return self._pin.epoch

    def begin(self) -> None:
        """Writes all rows of the tables and views at the first epoch."""
        pin = self._pin
        for table in self._tables.values():
            for node in range(self._store.nodes):
                for batch in self._store.rows(table, node, pin.cut, table.slots, BATCH_ROWS):
                    self._writer.write([Line("base", table.name, None, None, *pair) for pair in _pairs(table, batch)])
        self._writer.write([_epoch_line(pin)])
        for view in self._views:
            for shard in range(self._store.shards):
                with self._store.shard(shard).at(pin.epoch) as snapshot:
                    for run in snapshot.scan(view.state, size=BATCH_ROWS):
                        rows = self._rows(view, [value for _, value in run])
                        self._writer.write([Line("view", view.name, pin.epoch, None, *row) for row in rows])

    def advance(self) -> None:
        """Writes all epochs committed since the last call."""
        newest = committed_pin(self._store)
        # Read the catalog after the epoch: a view that still exists now existed at that epoch.
        current = self._catalog.views
        if gone := [v.name for v in self._views if v.name not in current or current[v.name].state != v.state]:
            message = f"view {gone[0]!r} was dropped, renamed or replaced; the recording ends before that"
            raise StoreError(message=message)
        for record in committed_between(self._store, self.epoch, newest.epoch):
            epoch, cut = record.epoch, record.cut
            assert cut is not None
            if failed := [v.name for v in self._views if v.name in record.failed]:
                message = f"view {failed[0]!r} failed at epoch {epoch}; the recording ends before that"
                raise StoreError(message=message)
            self._writer.write(self._base_changes(self._pin.cut, cut))
            self._writer.write([_epoch_line(Pin(epoch, cut, record.time))])
            self._writer.write([line for view in self._views for line in self._view_changes(view, epoch)])
            self._pin = Pin(epoch, cut, record.time)
            self.epochs += 1
        if self._pin != self._follower.pin:
            self._follower.move(self._pin)

    def _base_changes(self, start: Cut, end: Cut) -> list[Line]:
        """The table changes between two cuts, in the order of their transactions."""
        lines: list[Line] = []
        for node in range(self._store.nodes):
            for position, table, delta in self._store.history(self._tables, node, start, end):
                lines += _table_changes(position.number, table, delta)
        return sorted(lines, key=lambda line: line.transaction or 0)

    def _view_changes(self, view: ViewDef, epoch: int) -> list[Line]:
        """The view rows that an epoch touched, with their values at that epoch."""
        deleted: list[bytes] = []
        written: list[bytes] = []
        for shard in range(self._store.shards):
            with self._store.shard(shard).at(epoch - 1) as before:
                keys = before.changed(view.state, epoch)
                old_values = before.get_many(view.state, keys)
                new_values = before.moved_to(epoch).get_many(view.state, keys)
            deleted += [old for key, old in old_values.items() if key not in new_values]
            written += new_values.values()
        rows: dict[str, str | None] = {key: None for key, _ in self._rows(view, deleted)}
        rows.update(self._rows(view, written))  # last, because a row may move from one shard to another
        return [Line("view", view.name, epoch, None, *pair) for pair in rows.items()]

    def _rows(self, view: ViewDef, values: list[bytes]) -> list[tuple[str, str]]:
        """Key and row of each stored entry, as JSON text."""
        weights: Sequence[int] = np.ones(len(values), np.int64).tolist()
        if view.key is None:
            weight_array, values = split(values)
            weights = weight_array.tolist()
        batch = self._codecs[view.name].decode(values)
        key_positions = range(len(view.columns)) if view.key is None else view.key
        pairs = []
        for row, weight in zip(_values(batch), weights, strict=True):
            document = dict(zip(batch.schema.names, row, strict=True))
            if view.key is None:
                document[WEIGHT] = weight
            pairs.append((as_text([row[p] for p in key_positions]), as_text(document)))
        return pairs


def _epoch_line(pin: Pin) -> Line:
    return Line("epoch", None, pin.epoch, pin.cut.position.number, row=as_text({"time": pin.time}))


def _values(batch: pa.RecordBatch) -> Iterator[tuple[Any, ...]]:
    return zip(*(column.to_pylist() for column in batch.columns), strict=True)


def _pairs(table: TableDef, batch: pa.RecordBatch) -> list[tuple[str, str]]:
    """Key and row of each table row, as JSON text."""
    names = table.schema.names
    key = [names.index(k) for k in table.key]
    return [(as_text([row[p] for p in key]), as_text(dict(zip(names, row, strict=False)))) for row in _values(batch)]


def _table_changes(number: int, table: TableDef, delta: pa.RecordBatch) -> list[Line]:
    """The rows that a transaction touched, as they are after it; None if deleted."""
    images = zip(_pairs(table, delta), delta.column(WEIGHT).to_pylist(), strict=True)
    rows: dict[str, str | None] = {}
    for (key, row), weight in images:  # old images come before new ones
        rows[key] = row if weight > 0 else None
    return [Line("base", table.name, None, number, key, row) for key, row in rows.items()]


@contextmanager
def recorded(
    store: Store, catalog: Catalog, path: Path, names: Sequence[str], *, overwrite: bool = False
) -> Iterator[Recording]:
    """Records views in a thread while the block runs. An error of the thread is raised at the end of the block."""
    with _followed(store, catalog, names) as follower:
        views = [catalog.view(name) for name in names]
        header = _header(catalog, views)
        with Writer(path, header, overwrite=overwrite) as writer:
            recording = Recording(store, catalog, views, header.tables, follower, writer)
            recording.begin()
            writer.whole = True  # from here on the file is valid wherever the recording ends
            stop, errors = threading.Event(), list[Exception]()
            thread = threading.Thread(target=_follow, args=(recording, stop, errors), name="tailrace-record")
            thread.start()
            try:
                yield recording
            finally:
                stop.set()
                thread.join()
                if not errors:
                    recording.advance()
            if errors:
                raise errors[0]


def _follow(recording: Recording, stop: threading.Event, errors: list[Exception]) -> None:
    while not stop.wait(POLL_SECONDS) and not errors:
        try:
            recording.advance()
        except Exception as error:
            errors.append(error)


@contextmanager
def _followed(store: Store, catalog: Catalog, names: Sequence[str]) -> Iterator[Follower]:
    """Follows the epochs, starting at one where all these views are readable."""
    while True:
        with following(store) as follower:
            if all(catalog.view(name).since <= follower.pin.epoch for name in names):
                yield follower
                return


def _header(catalog: Catalog, views: Sequence[ViewDef]) -> Header:
    """The definitions of the views, and of all tables and views that they read."""
    chosen = {view.name for view in views}
    ordered: dict[str, ViewDef] = {}

    def add(view: ViewDef) -> None:
        for name in view.uses:
            if name in catalog.views:
                add(catalog.views[name])
        ordered.setdefault(view.name, view)  # after the views that it reads

    for view in views:
        add(view)
    tables = sorted({number for view in views for number in view.tables})
    by_id = {t.id: t for t in catalog.tables.values()}
    relations = catalog.relations
    definitions = tuple(_recorded_view(relations, view, view.name in chosen) for view in ordered.values())
    return Header(tuple(by_id[number] for number in tables), definitions)


def _recorded_view(relations: Relations, view: ViewDef, chosen: bool) -> RecordedView:
    key = None if view.key_names is None else tuple(view.key_names)
    plan = view.plan.logical if view.plan is not None and leaves_ties_open(view.plan.logical) else None
    sql = known_sql(relations, view)
    return RecordedView(view.name, sql, key, chosen, None if plan is None else to_json(plan))
