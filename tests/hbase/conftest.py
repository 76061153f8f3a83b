from __future__ import annotations

import uuid
from collections.abc import Iterator

import pytest
from namespaces import Logged
from thrift_client import Client

from tailrace_hbase.local_cluster import LocalCluster


@pytest.fixture
def client(cluster: LocalCluster) -> Iterator[Client]:
    connected = Client(cluster.port)
    yield connected
    connected.close()


@pytest.fixture(scope="session")
def logged(cluster: LocalCluster) -> Iterator[Logged]:
    """A namespace with a raw log, that all tests share which do not change its peer."""
    yield from Logged.lived(cluster, f"n{uuid.uuid4().hex[:8]}")
