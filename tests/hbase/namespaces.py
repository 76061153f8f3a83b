"""A namespace with the tables that the endpoint writes, as the store creates them, and its replication peer."""

from __future__ import annotations

import uuid
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass

from raw_log import RawLog
from thrift_client import Client, hbase

from tailrace_hbase.local_cluster import LocalCluster

TABLES = {"wal": "w", "marks": "m", "meta": "d"}

# A server has much to ship, so that what another server ships comes first:
LONG = 6_000  # rows of 1,000 bytes
BANDWIDTH = 800_000  # bytes that a server ships in a second


@dataclass(frozen=True)
class Logged:
    cluster: LocalCluster
    namespace: str
    client: Client

    @property
    def log(self) -> RawLog:
        return RawLog(self.client, self.namespace)

    @classmethod
    def lived(cls, cluster: LocalCluster, namespace: str, *options: str) -> Iterator[Logged]:
        """Yields the namespace while it exists."""
        client = Client(cluster.port)
        client.createNamespace(hbase.TNamespaceDescriptor(name=namespace))
        for table, family in TABLES.items():
            client.create_table(f"{namespace}:{table}", [family])
        cluster.admin("peer", "add", namespace, *options)
        try:
            yield cls(cluster, namespace, client)
        finally:
            cluster.admin("peer", "remove", namespace)
            for table in TABLES:
                client.drop_table(f"{namespace}:{table}")
            client.deleteNamespace(namespace)
            client.close()

    def track(self, table: str) -> None:
        self.client.put(f"{self.namespace}:meta", b"tracked", {f"d:{table}": b"{}"})

    def move(self, table: str, role: str, row: bytes = b"") -> str:
        """Moves the region of the row to a region server. Returns the region's encoded name."""
        address = self.cluster.address(role)
        region = next(r for r in reversed(self.client.regions(table)) if r.start <= row)
        if region.server != address:
            self.cluster.admin("move", region.encoded_name, address)
        return region.encoded_name

    @contextmanager
    def table(
        self, families: tuple[str, ...] = ("f",), splits: tuple[bytes, ...] = (), tracked: bool = True, scope: int = 1
    ) -> Iterator[str]:
        """A base table, for the time of a test."""
        name = f"t{uuid.uuid4().hex[:8]}"
        self.client.create_table(name, families, scope, splits, versions=5)
        if tracked:
            self.track(name)
        yield name
        self.client.drop_table(name)
