"""The documents of a store on HBase: columns of one row, so that any number of them changes in one step."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, TypeVar

from tailrace.errors import Conflict, Fenced
from tailrace.store import documents
from tailrace.store.documents import Changes, Kind
from tailrace.store.hbase.client import HbaseTable
from tailrace.store.hbase.versioned_row import Update, Values, VersionedRow
from tailrace.store.locks import TERM

ROW = b"documents"
T = TypeVar("T")


class Documents:
    """The documents in a table `meta`. They must fit a store with `nodes` nodes."""

    def __init__(self, meta: HbaseTable, nodes: int) -> None:
        self._row, self._nodes = VersionedRow(meta, ROW), nodes

    def document(self, kind: Kind[T], key: object = "") -> T | None:
        name = kind.at(key)
        value = self._row.read([name.encode()]).get(name.encode())
        return None if value is None else kind.decode(name, value, self._nodes)

    def documents(self, kind: Kind[T]) -> dict[str, T]:
        found = self._row.read(prefixes=[kind.name.encode()])
        names = sorted((stored.decode(errors="replace"), value) for stored, value in found.items())
        return {name.removeprefix(kind.name): kind.decode(name, value, self._nodes) for name, value in names}

    def raw(self, names: Sequence[str] | None = None) -> dict[bytes, bytes]:
        """Documents as of one moment, undecoded: those with these names, or all."""
        return self._row.read(None if names is None else [name.encode() for name in names])

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

        read = {*(expected or {}), *([TERM.name] if term is not None else [])}
        self._row.change([name.encode() for name in read], decide)

    def _decode(self, values: Values, name: str) -> Any:
        """A document among values; None if it does not exist."""
        value, kind = values.get(name.encode()), documents.kind_of(name)
        return None if value is None or kind is None else kind.decode(name, value, self._nodes)
