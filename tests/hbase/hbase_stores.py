"""Whole stores on HBase for tests, each in a namespace of its own."""

from __future__ import annotations

import uuid
from collections.abc import Iterator, Sequence
from contextlib import contextmanager

from tailrace.codec.schema import TableDef
from tailrace.store.hbase.admin import Admin
from tailrace.store.hbase.hbase_store import HbaseStore
from tailrace.store.hbase.opening import open_store
from tailrace.store.requested import Requested
from tailrace.store.store_ref import StoreRef
from tailrace_hbase.local_cluster import LocalCluster


@contextmanager
def new_store(cluster: LocalCluster, tables: Sequence[TableDef] = ()) -> Iterator[HbaseStore]:
    """An empty store with these tables, for the time of a test."""
    name = f"s{uuid.uuid4().hex[:8]}"
    store = open_store(StoreRef.of(cluster.url(name)), Requested(), create=True)
    cluster.admin("peer", "add", name)
    try:
        for table in tables:
            store.change_documents(store.new_table(table, {}))
        yield store
    finally:
        cluster.admin("peer", "remove", name)
        admin = Admin(store.client)
        admin.drop_namespace(name)
        admin.drop_namespace(f"{name}_data")
        store.close()
