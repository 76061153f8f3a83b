"""Nothing is lost while nobody reads: WALs are kept until they are shipped, the raw log until it is resolved.

WALs are rolled and archived. The cleaner of HBase deletes an archived one when no replication peer needs it.
"""

from __future__ import annotations

import os
import time
import uuid
from collections.abc import Callable

import pytest
from foreign import attach, foreign_table, shown
from hbase_stores import new_store
from thrift_client import Client, tname

from tailrace.store.hbase.hbase_store import HbaseStore
from tailrace_hbase.local_cluster import LocalCluster

pytestmark = pytest.mark.hbase


class Wals:
    """The WAL files of a cluster on the local disk."""

    def __init__(self, cluster: LocalCluster) -> None:
        self.cluster, self._data = cluster, cluster.directory / "data"

    def active(self) -> set[str]:
        return {file.name for file in (self._data / "WALs").glob("*/*") if not file.name.endswith(".meta")}

    def written(self) -> set[str]:
        """The WAL of each server that is written now."""
        newest: dict[str, str] = {}
        for name in sorted(self.active(), key=lambda name: int(name.rpartition(".")[2])):
            newest[name.rpartition(".")[0]] = name
        return set(newest.values())

    def archived(self) -> set[str]:
        return {file.name for file in (self._data / "oldWALs").glob("*")}

    def archive(self) -> set[str]:
        """Rolls the WALs of all servers until those of before are archived. Returns their names."""
        old = self.active()

        def roll() -> bool:
            self.cluster.admin("flush")  # a WAL is archived when everything in it is in files of its tables
            self.cluster.admin("rollwal")
            return not old & self.active()

        until(roll, lambda: f"WALs that are not archived: {old & self.active()}")
        return old

    def await_cleaner(self) -> None:
        """Waits until the cleaner has looked at the archive: it deletes a file that nobody needs."""
        canary = self._data / "oldWALs" / f"localhost%2C1%2C1.{uuid.uuid4().int % 10**13}"
        canary.touch()
        os.utime(canary, (time.time() - 3600,) * 2)
        until(lambda: not canary.exists(), lambda: f"{canary} is still there")


def until(condition: Callable[[], bool], state: Callable[[], str], seconds: float = 600) -> None:
    end = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < end, state()
        time.sleep(0.2)


def put_rows(client: Client, table: str, numbers: range) -> None:
    client.put_rows(table, ((n.to_bytes(4, "big"), {"f:a": n.to_bytes(8, "big")}) for n in numbers))


def numbers(store: HbaseStore) -> list[int]:
    return [row[1] for row in shown(store, store.newest_cut())]


def test_wals_are_kept_while_the_peer_is_disabled(cluster: LocalCluster, client: Client) -> None:
    wals = Wals(cluster)
    with new_store(cluster) as store, foreign_table(client) as name:
        attach(store, name)
        store.catch_up()
        cluster.admin("peer", "disable", store.namespace)
        put_rows(client, name, range(100))
        old = wals.written()
        wals.archive()
        put_rows(client, name, range(100, 200))
        wals.await_cleaner()
        assert old <= wals.archived()
        store.advance()
        assert numbers(store) == []
        cluster.admin("peer", "enable", store.namespace)
        store.catch_up()
        assert numbers(store) == list(range(200))
        until(lambda: not old & wals.archived(), lambda: f"shipped, but still there: {old & wals.archived()}")


def test_wals_are_kept_while_the_endpoint_fails(cluster: LocalCluster, client: Client) -> None:
    """The endpoint cannot write: the table of the raw log is disabled."""
    wals = Wals(cluster)
    with new_store(cluster) as store, foreign_table(client) as name:
        attach(store, name)
        store.catch_up()
        wal = f"{store.namespace}:wal"
        client.disableTable(tname(wal))
        try:
            put_rows(client, name, range(100))
            old = wals.archive()
            wals.await_cleaner()
            assert old & wals.archived(), "a WAL that was not shipped is gone"
        finally:
            client.enableTable(tname(wal))
        store.catch_up()
        assert numbers(store) == list(range(100))


def test_the_raw_log_is_kept_while_nobody_resolves(cluster: LocalCluster, client: Client) -> None:
    """The endpoint ships without a runner. Then the WALs are gone, and the raw log has everything."""
    wals = Wals(cluster)
    with new_store(cluster) as store, foreign_table(client) as name:
        attach(store, name)
        store.catch_up()
        put_rows(client, name, range(100))
        old = wals.archive()
        put_rows(client, name, range(100, 200))
        until(lambda: not old & wals.archived(), lambda: f"shipped, but still there: {old & wals.archived()}")
        for table in (name, f"{store.namespace}:wal"):
            cluster.admin("compact", table, "--major")
        assert numbers(store) == []
        store.catch_up()
        assert numbers(store) == list(range(200))
