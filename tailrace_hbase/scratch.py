"""Databases on a local cluster that end with their block, for tests and for the fuzzer."""

from __future__ import annotations

import uuid
from collections.abc import Iterator
from contextlib import closing, contextmanager
from typing import Any

from pyspark.sql import SparkSession

import tailrace as tr
from tailrace.store.hbase.admin import Admin
from tailrace.store.hbase.client import Client
from tailrace_hbase.local_cluster import LocalCluster
from tailrace_hbase.settings import HOST


@contextmanager
def scratch_namespace(cluster: LocalCluster) -> Iterator[str]:
    """The name of a new namespace. In the end it is removed, with its replication peer and the tables of its store."""
    name = f"s{uuid.uuid4().hex[:8]}"
    try:
        yield name
    finally:
        drop_store(cluster, name)


def drop_store(cluster: LocalCluster, name: str) -> None:
    """Removes a namespace with its replication peer and the tables of its store, if there is one."""
    with closing(Client(HOST, cluster.port)) as client:
        admin = Admin(client)
        if admin.namespace_exists(name):
            cluster.admin("peer", "remove", name)
            for namespace in (name, f"{name}_data"):
                admin.drop_namespace(namespace)


@contextmanager
def scratch_database(cluster: LocalCluster, spark: SparkSession | None = None, **options: Any) -> Iterator[tr.Database]:
    """An empty database with a replication peer. `options` are those of `tailrace.open`."""
    with scratch_namespace(cluster) as name, tr.open(cluster.url(name), create=True, spark=spark, **options) as db:
        cluster.admin("peer", "add", name)
        yield db
