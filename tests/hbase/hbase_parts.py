"""The parts of a store on HBase that have no tables: documents, locks and shards, in a namespace of their own."""

from __future__ import annotations

import uuid
from collections.abc import Iterator
from contextlib import AbstractContextManager, contextmanager
from typing import TypeVar

from tailrace.store.documents import Changes, Kind
from tailrace.store.hbase import namespace
from tailrace.store.hbase.admin import Admin
from tailrace.store.hbase.client import Client
from tailrace.store.hbase.hbase_shard import HbaseShard
from tailrace.store.hbase.meta import Documents
from tailrace.store.hbase.row_locks import EXPIRY, RENEWAL, RowLocks
from tailrace.store.hbase.trimming import GRACE
from tailrace.store.locks import Holder, LockName

T = TypeVar("T")


class HbaseParts:
    """The options are shorter times, so that tests need not wait."""

    def __init__(
        self, port: int, name: str, *, renewal: float = RENEWAL, expiry: float = EXPIRY, grace: float = GRACE
    ) -> None:
        self.client, self.name = Client("127.0.0.1", port), name
        self.settings = namespace.read_settings(self.client, name)
        meta = self.client.table(f"{name}:meta", b"d")
        self.nodes, self.shards = self.settings.nodes, self.settings.shards
        self._documents = Documents(meta, self.nodes)
        self._locks = RowLocks(meta, f"{self.client.url}/{name}", renewal, expiry)
        self._grace, self._shards = grace, dict[int, HbaseShard]()

    def document(self, kind: Kind[T], key: object = "") -> T | None:
        return self._documents.document(kind, key)

    def documents(self, kind: Kind[T]) -> dict[str, T]:
        return self._documents.documents(kind)

    def change_documents(self, changes: Changes, *, expected: Changes | None = None, term: int | None = None) -> None:
        self._documents.change_documents(changes, expected=expected, term=term)

    def lock(self, name: LockName, patience: float = 0.0) -> AbstractContextManager[None]:
        return self._locks.held(name, patience)

    def holder(self, name: LockName) -> Holder | None:
        return self._locks.holder(name)

    def shard(self, index: int) -> HbaseShard:
        if index not in self._shards:
            self._shards[index] = HbaseShard(self.client, self.name, index, self._grace)
        return self._shards[index]

    def fence(self, term: int) -> None:
        for index in range(self.shards):
            self.shard(index).fence(term)

    def close(self) -> None:
        self.client.close()


@contextmanager
def new_parts(port: int, **times: float) -> Iterator[HbaseParts]:
    """An empty store, for the time of a test. `times` are options of `HbaseParts`."""
    name, client = f"p{uuid.uuid4().hex[:8]}", Client("127.0.0.1", port)
    namespace.create(client, name)
    parts = HbaseParts(port, name, **times)
    try:
        yield parts
    finally:
        parts.close()
        Admin(client).drop_namespace(name)
        client.close()
