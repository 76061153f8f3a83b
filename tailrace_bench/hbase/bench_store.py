"""The cluster of a run, and stores on it that are removed afterwards."""

from __future__ import annotations

import atexit
import os
import tempfile
import uuid
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from functools import cache

import numpy as np
import pyarrow as pa

import tailrace as tr
from tailrace.codec.keys import KeyCodec
from tailrace.database.inside import inside
from tailrace.store.hbase.admin import Admin
from tailrace.store.hbase.client import Client
from tailrace.store.hbase.hbase_store import HbaseStore
from tailrace_bench import workloads
from tailrace_hbase.local_cluster import LocalCluster
from tailrace_hbase.settings import HOST

TABLE = "ops"
_KEYS = KeyCodec([pa.int64()])


@cache
def start_cluster() -> LocalCluster:
    """The cluster in the directory TAILRACE_HBASE, which stays, or a new one, which ends with this process."""
    if kept := os.environ.get("TAILRACE_HBASE"):
        cluster = LocalCluster(kept)
        cluster.start()
        return cluster
    directory = tempfile.TemporaryDirectory(prefix="tailrace-bench-hbase-", ignore_cleanup_errors=True)
    cluster = LocalCluster(directory.name)
    atexit.register(directory.cleanup)
    atexit.register(cluster.stop, orderly=False)  # handlers run in reverse order
    cluster.start()
    return cluster


@dataclass(frozen=True)
class BenchStore:
    """A store with the table `ops`, and the namespace of its own that it is in."""

    db: tr.Database
    cluster: LocalCluster
    namespace: str

    @property
    def store(self) -> HbaseStore:
        store = inside(self.db).store
        assert isinstance(store, HbaseStore)
        return store

    @property
    def table(self) -> str:
        """The name of the table `ops` in HBase."""
        return f"{self.namespace}_data:{TABLE}"

    def set_peer(self, present: bool) -> None:
        """Adds or removes the replication peer. Without it HBase ships nothing of what is written."""
        self.cluster.admin("peer", "add" if present else "remove", self.namespace)


@contextmanager
def bench_store() -> Iterator[BenchStore]:
    """A new store with its replication peer."""
    cluster, name = start_cluster(), f"bench{uuid.uuid4().hex[:8]}"
    with tr.open(cluster.url(name), create=True) as db:
        made = BenchStore(db, cluster, name)
        made.set_peer(True)
        try:
            db.sql(f"CREATE TABLE {TABLE} ({workloads.COLUMNS})")
            yield made
        finally:
            made.store.finish_trimming()
            made.set_peer(False)
            _drop(made)


def _drop(made: BenchStore) -> None:
    admin = Admin(made.store.client)
    for namespace in (made.namespace, f"{made.namespace}_data"):
        admin.drop_namespace(namespace)


@contextmanager
def plain_client() -> Iterator[Client]:
    """A client of the cluster: what any program can do through the Thrift2 server."""
    client = Client(HOST, start_cluster().port)
    try:
        yield client
    finally:
        client.close()


def encode_keys(ids: np.ndarray) -> list[bytes]:
    """The row keys of HBase of these ids."""
    encoded: list[bytes] = _KEYS.encode([pa.array(ids.astype(np.int64))], len(ids)).to_pylist()
    return encoded
