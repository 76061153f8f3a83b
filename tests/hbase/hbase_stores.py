"""Whole stores on HBase for tests, each in a namespace of its own."""

from __future__ import annotations

import uuid
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Any

from pyspark.sql import SparkSession

import tailrace as tr
from tailrace.codec.schema import TableDef
from tailrace.database.inside import inside
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
        _drop(cluster, store, name)
        store.close()


@contextmanager
def new_database(cluster: LocalCluster, spark: SparkSession, **options: Any) -> Iterator[tr.Database]:
    """A database without tables, for the time of a test."""
    name = f"d{uuid.uuid4().hex[:8]}"
    with tr.open(cluster.url(name), create=True, spark=spark, **options) as db:
        cluster.admin("peer", "add", name)
        yield db
        store = inside(db).store
        assert isinstance(store, HbaseStore)
        _drop(cluster, store, name)


def _drop(cluster: LocalCluster, store: HbaseStore, name: str) -> None:
    cluster.admin("peer", "remove", name)
    for namespace in (name, f"{name}_data"):
        Admin(store.client).drop_namespace(namespace)
