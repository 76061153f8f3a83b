"""Whole stores on HBase for tests, each in a namespace of its own."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager

from tailrace.codec.schema import TableDef
from tailrace.store.hbase.hbase_store import HbaseStore
from tailrace.store.hbase.opening import open_store
from tailrace.store.requested import Requested
from tailrace.store.store_ref import StoreRef
from tailrace_hbase.local_cluster import LocalCluster
from tailrace_hbase.scratch import scratch_namespace


@contextmanager
def new_store(cluster: LocalCluster, tables: Sequence[TableDef] = ()) -> Iterator[HbaseStore]:
    """An empty store with these tables, for the time of a test."""
    with scratch_namespace(cluster) as name:
        store = open_store(StoreRef.of(cluster.url(name)), Requested(), create=True)
        cluster.admin("peer", "add", name)
        try:
            for table in tables:
                store.change_documents(store.new_table(table, {}))
            yield store
        finally:
            store.close()
