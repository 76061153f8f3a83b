"""The documents of a store on HBase: columns of one row, so that any number of them changes in one step."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any, TypeVar

from tailrace.errors import Conflict, Fenced
from tailrace.store import documents
from tailrace.store.documents import Changes, Kind
from tailrace.store.hbase.client import HbaseTable
from tailrace.store.hbase.versioned_row import Known, Update, Values, VersionedRow, follows
from tailrace.store.locks import TERM

ROW = b"documents"
T = TypeVar("T")


class _ReadOnce:
    """Documents as they were at one moment, with the changes that the thread has made since.

    kinds       their kinds
    while_none  those of the kinds that are here only because no document of them exists

    They are for one thread only, the one that holds the lock. Other threads must see what other processes do: they may
    go on although this one has lost the lock, and a pin is checked by reading again.
    """

    def __init__(self, values: Values, kinds: Sequence[Kind[Any]], while_none: Sequence[Kind[Any]]) -> None:
        self.values, self.thread = values, threading.get_ident()
        self._while_none = {kind.name for kind in while_none if not self.of(kind)}
        self._kinds = {kind.name for kind in kinds} | self._while_none

    def has(self, kind: Kind[Any]) -> bool:
        return kind.name in self._kinds

    def of(self, kind: Kind[Any]) -> Values:
        """All documents of a kind, by name."""
        prefix = kind.name.encode()
        return {name: value for name, value in self.values.items() if name.startswith(prefix)}

    def change(self, changes: Changes) -> None:
        """Takes in what the thread has changed."""
        added = {name: documents.encode(document) for name, document in changes.items() if document is not None}
        self._kinds -= self._while_none & {kind.name for name in added if (kind := documents.kind_of(name))}
        left = {name: value for name, value in self.values.items() if name.decode(errors="replace") not in changes}
        self.values = left | {name.encode(): value for name, value in added.items()}


class Documents:
    """The documents in a table `meta`. They must fit a store with `nodes` nodes."""

    def __init__(self, meta: HbaseTable, nodes: int) -> None:
        self._row, self._nodes = VersionedRow(meta, ROW), nodes
        self._known: Known | None = None  # after the last change by this process; columns that do not exist are empty
        self._once: _ReadOnce | None = None

    def document(self, kind: Kind[T], key: object = "") -> T | None:
        name, once = kind.at(key), self._read_once
        found = once.values if once is not None and once.has(kind) else self._row.read([name.encode()])
        value = found.get(name.encode())
        return None if value is None else kind.decode(name, value, self._nodes)

    def documents(self, kind: Kind[T]) -> dict[str, T]:
        once = self._read_once
        found = once.of(kind) if once is not None and once.has(kind) else self._row.read(prefixes=[kind.name.encode()])
        names = sorted((stored.decode(errors="replace"), value) for stored, value in found.items())
        return {name.removeprefix(kind.name): kind.decode(name, value, self._nodes) for name, value in names}

    @contextmanager
    def reading_once(self, kinds: Sequence[Kind[Any]], while_none: Sequence[Kind[Any]]) -> Iterator[None]:
        """Reads documents of these kinds together, and in the block not again."""
        if self._read_once is not None:
            yield
            return
        values = self._row.read(prefixes=[kind.name.encode() for kind in (*kinds, *while_none)])
        self._once = _ReadOnce(values, kinds, while_none)
        try:
            yield
        finally:
            self._once = None

    @property
    def _read_once(self) -> _ReadOnce | None:
        """What this thread need not read again."""
        once = self._once
        return once if once is not None and once.thread == threading.get_ident() else None

    def raw(self, names: Sequence[str] | None = None) -> dict[bytes, bytes]:
        """Documents as of one moment, undecoded: those with these names, or all."""
        return self._row.read(None if names is None else [name.encode() for name in names])

    def together(self, *kinds: Kind[Any]) -> dict[str, dict[str, Any]]:
        """The documents of several kinds as of one moment: for each kind its documents by key."""
        found = self._row.read(prefixes=[kind.name.encode() for kind in kinds])
        several: dict[str, dict[str, Any]] = {kind.name: {} for kind in kinds}
        for stored, value in sorted(found.items()):
            name = stored.decode(errors="replace")
            for kind in kinds:
                if name == kind.name or (kind.name.endswith(":") and name.startswith(kind.name)):
                    several[kind.name][name.removeprefix(kind.name)] = kind.decode(name, value, self._nodes)
        return several

    def change_documents(self, changes: Changes, *, expected: Changes | None = None, term: int | None = None) -> None:
        def decide(values: Values) -> Update:
            for name, document in (expected or {}).items():
                if self._decode(values, name) != document:
                    raise Conflict(document=name)
            if term is not None:
                newest = self._decode(values, TERM.name)
                if newest is None or newest.number != term:
                    raise Fenced(term=term, newest=0 if newest is None else newest.number)
            puts = {name.encode(): documents.encode(d) for name, d in changes.items() if d is not None}
            return Update(puts, [name.encode() for name, d in changes.items() if d is None])

        names = {*(expected or {}), *([TERM.name] if term is not None else [])}
        columns = [name.encode() for name in names]
        try:
            known = self._row.change(columns, decide, self._known_of(columns, decide))
        except BaseException:
            if self._read_once is not None:
                self._once = None  # it is not known what was changed: documents are read again
            raise
        self._note({*columns, *(name.encode() for name in changes)}, known)
        if (once := self._read_once) is not None:
            once.change(changes)

    def _known_of(self, columns: Sequence[bytes], decide: Callable[[Values], object]) -> Known | None:
        """What is known of columns since the last change by this process, to begin a change with.

        If another process has changed any document since, the change fails, and the columns are read. They are read at
        once, too, if the change would be refused: that may be no longer true.
        """
        last = self._known
        if last is None or not last.values.keys() >= {*columns}:
            return None
        known = Known(last.version, {column: value for column in columns if (value := last.values[column])})
        try:
            decide(known.values)
        except (Conflict, Fenced):
            return None
        return known

    def _note(self, columns: Iterable[bytes], known: Known) -> None:
        """Keeps what is known after a change. What was known before stays true if no other process made a change."""
        before = self._known
        if not known.is_changed:  # the answer was lost, and others may have changed documents since
            self._known = None
            return
        is_next = before is not None and follows(known.version, before.version)
        values = dict(before.values) if before is not None and is_next else {}
        values |= {column: known.values.get(column, b"") for column in columns}
        self._known = Known(known.version, values)

    def _decode(self, values: Values, name: str) -> Any:
        """A document among values; None if it does not exist."""
        value, kind = values.get(name.encode()), documents.kind_of(name)
        return None if value is None or kind is None else kind.decode(name, value, self._nodes)
