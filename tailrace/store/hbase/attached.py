"""Opens stores on HBase in Spark workers: once per process, kept open for later tasks."""

from __future__ import annotations

import os

from tailrace.store.hbase.connections import idl
from tailrace.store.hbase.hbase_store import HbaseStore
from tailrace.store.store_ref import StoreRef

idl()  # parsed once, in Spark's daemon, and not in every worker that it forks
_attached: dict[tuple[int, str], HbaseStore] = {}  # by process id and URL


def attach(ref: StoreRef) -> HbaseStore:
    """The store at a reference."""
    identity = (os.getpid(), ref.url)
    if identity not in _attached:
        _attached[identity] = HbaseStore(ref)
    return _attached[identity]
