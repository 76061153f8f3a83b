"""Recording: every state of views, epoch by epoch, and every change of their tables, while all goes on.

The recorder follows the committed epochs with a pin, so nothing that it has yet to read is let go: undo records say
which keys an epoch changed, the shards at that epoch what these hold, and the log what the tables went through. It
slows nobody down; what it has not read yet takes room in the store.
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
from tailrace.catalog.catalog import Catalog
from tailrace.catalog.definition import ViewDef
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

EVERY = 0.05  # seconds between looks for new epochs
AT_ONCE = 10_000  # rows in a batch of the file


class Recording:
    """A recording under way: how far it is."""

    def __init__(
        self, store: Store, catalog: Catalog, views: Sequence[ViewDef], follower: Follower, to: Writer
    ) -> None:
        self._store, self._catalog, self._views, self._follower, self._to = store, catalog, views, follower, to
        self._at = follower.pin
        numbers = {number for view in views for number in view.tables}
        self._tables = {t.id: t for t in catalog.tables.values() if t.id in numbers}
        self._codecs = {view.name: RowCodec(types.schema(view.columns)) for view in views}
        self.epochs = 0
        """Epochs recorded, after the one it began with."""

    @property
    def epoch(self) -> int:
        """The last epoch recorded."""
        return self._at.epoch

    def begin(self) -> None:
        """Everything as it is at the first epoch."""
        pin = self._at
        for table in self._tables.values():
            for node in range(self._store.nodes):
                for batch in self._store.rows(table, node, pin.cut, range(len(table.columns)), AT_ONCE):
                    self._to.write([Line("base", table.name, None, None, *pair) for pair in _pairs(table, batch)])
        self._to.write([Line("epoch", None, pin.epoch, pin.cut.transaction)])
        for view in self._views:
            for shard in range(self._store.shards):
                with self._store.shard(shard).at(pin.epoch) as snapshot:
                    for run in snapshot.scan(view.state, size=AT_ONCE):
                        rows = self._rows(view, [value for _, value in run])
                        self._to.write([Line("view", view.name, pin.epoch, None, *row) for row in rows])

    def advance(self) -> None:
        """All epochs committed since."""
        newest = committed_pin(self._store)
        known = self._catalog.views  # after the epoch was read: what is there now was there then
        if gone := [v.name for v in self._views if v.name not in known or known[v.name].state != v.state]:
            raise StoreError(message=f"view {gone[0]!r} was dropped or replaced; its recording ends before that")
        for epoch, cut in committed_between(self._store, self.epoch, newest.epoch):
            self._to.write(self._base(self._at.cut, cut))
            self._to.write([Line("epoch", None, epoch, cut.transaction)])
            self._to.write([line for view in self._views for line in self._changed(view, epoch)])
            self._at = Pin(epoch, cut)
            self.epochs += 1
        if self._at != self._follower.pin:
            self._follower.move(self._at)

    def _base(self, start: Cut, end: Cut) -> list[Line]:
        """What happened to the tables between two cuts, by transaction."""
        found: list[Line] = []
        for node in range(self._store.nodes):
            for number, table, delta in self._store.history(self._tables, node, start.offsets[node], end.offsets[node]):
                found += _changes(number, table, delta)
        return sorted(found, key=lambda line: line.transaction or 0)

    def _changed(self, view: ViewDef, epoch: int) -> list[Line]:
        """The rows of a view that an epoch touched, as they are at that epoch."""
        gone: list[bytes] = []
        come: list[bytes] = []
        for shard in range(self._store.shards):
            with self._store.shard(shard).at(epoch - 1) as before:
                keys = before.changed(view.state, epoch)
                olds = before.get_many(view.state, keys)
                news = before.moved_to(epoch).get_many(view.state, keys)
            gone += [old for key, old in olds.items() if key not in news]
            come += news.values()
        left: dict[str, str | None] = {key: None for key, _ in self._rows(view, gone)}
        left.update(self._rows(view, come))  # a row may have gone from one shard to another
        return [Line("view", view.name, epoch, None, *pair) for pair in left.items()]

    def _rows(self, view: ViewDef, values: list[bytes]) -> list[tuple[str, str]]:
        """Key and row of stored entries, as texts."""
        weights: Sequence[int] = np.ones(len(values), np.int64).tolist()
        if view.key is None:
            found, values = split(values)
            weights = found.tolist()
        batch = self._codecs[view.name].decode(values)
        at = range(len(view.columns)) if view.key is None else view.key
        pairs = []
        for row, weight in zip(_values(batch), weights, strict=True):
            named = dict(zip(batch.schema.names, row, strict=True))
            shown = named if view.key is not None else {**named, WEIGHT: weight}
            pairs.append((as_text([row[p] for p in at]), as_text(shown)))
        return pairs


def _values(batch: pa.RecordBatch) -> Iterator[tuple[Any, ...]]:
    return zip(*(column.to_pylist() for column in batch.columns), strict=True)


def _pairs(table: TableDef, batch: pa.RecordBatch) -> list[tuple[str, str]]:
    """Key and row of a table's rows, as texts."""
    names = table.schema.names
    return [
        (as_text([row[p] for p in table.positions]), as_text(dict(zip(names, row, strict=False))))
        for row in _values(batch)
    ]


def _changes(number: int, table: TableDef, delta: pa.RecordBatch) -> list[Line]:
    """What a transaction left of each row that it touched: the row after, or that it is gone."""
    images = zip(_pairs(table, delta), delta.column(WEIGHT).to_pylist(), strict=True)
    left: dict[str, str | None] = {}
    for (key, row), weight in images:  # the rows before come first
        left[key] = row if weight > 0 else None
    return [Line("base", table.name, None, number, key, row) for key, row in left.items()]


@contextmanager
def recorded(store: Store, catalog: Catalog, path: Path, names: Sequence[str]) -> Iterator[Recording]:
    """Record views inside the block, by a thread; what it failed of is raised at the end of the block."""
    with _followed(store, catalog, names) as follower:
        views = [catalog.view(name) for name in names]
        with Writer(path, _header(catalog, views)) as writer:
            recording = Recording(store, catalog, views, follower, writer)
            recording.begin()
            writer.whole = True  # as far as it goes
            stop, failed = threading.Event(), list[Exception]()
            thread = threading.Thread(target=_follow, args=(recording, stop, failed), name="tailrace-record")
            thread.start()
            try:
                yield recording
            finally:
                stop.set()
                thread.join()
                if not failed:
                    recording.advance()
            if failed:
                raise failed[0]


def _follow(recording: Recording, stop: threading.Event, failed: list[Exception]) -> None:
    while not stop.wait(EVERY) and not failed:
        try:
            recording.advance()
        except Exception as error:
            failed.append(error)


@contextmanager
def _followed(store: Store, catalog: Catalog, names: Sequence[str]) -> Iterator[Follower]:
    """Follow the epochs from one at which all these views can be read."""
    while True:
        with following(store) as follower:
            if all(catalog.view(name).since <= follower.pin.epoch for name in names):
                yield follower
                return


def _header(catalog: Catalog, views: Sequence[ViewDef]) -> Header:
    """The definitions of views, and of all that they read."""
    chosen = {view.name for view in views}
    needed: dict[str, ViewDef] = {}

    def need(view: ViewDef) -> None:
        for name in view.uses:
            if name in catalog.views:
                need(catalog.views[name])
        needed.setdefault(view.name, view)  # after those that it reads

    for view in views:
        need(view)
    tables = sorted({number for view in views for number in view.tables})
    by_id = {t.id: t for t in catalog.tables.values()}
    defined = tuple(_recorded_view(view, view.name in chosen) for view in needed.values())
    return Header(tuple(by_id[number] for number in tables), defined)


def _recorded_view(view: ViewDef, chosen: bool) -> RecordedView:
    key = None if view.key_names is None else tuple(view.key_names)
    plan = view.plan if view.plan is not None and leaves_ties_open(view.plan) else None
    return RecordedView(view.name, view.sql, key, chosen, None if plan is None else to_json(plan))
