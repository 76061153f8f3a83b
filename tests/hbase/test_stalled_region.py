"""Serial replication that waits for ever (HBASE-29499): made to happen, noticed, and ended with `Admin finish`."""

from __future__ import annotations

import time
from collections.abc import Callable

import pytest
from foreign import ROWS, attach, foreign_table, shown
from hbase_stores import new_store
from thrift_client import Client

from tailrace.errors import NotShipped
from tailrace.store.hbase import resolver, rounds
from tailrace_hbase.local_cluster import LocalCluster

pytestmark = pytest.mark.hbase


def until(condition: Callable[[], bool], what: str, seconds: float = 300) -> None:
    end = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < end, what
        time.sleep(0.5)


def test_replication_that_waits_for_ever_is_noticed_and_ended(
    cluster: LocalCluster, client: Client, monkeypatch: pytest.MonkeyPatch, told: Callable[[str], None]
) -> None:
    """A server dies with a region that nobody has written to there, before it has shipped that it has opened it.

    The peer is disabled meanwhile, so that this is certain.
    """
    monkeypatch.setattr(rounds, "STALLED", 5.0)
    added = cluster.add_server()
    try:
        with new_store(cluster) as store, foreign_table(client) as name:
            attach(store, name)
            cluster.await_server(added)
            [region] = client.regions(name)
            client.put(name, ROWS[0], {"f:a": bytes(8)})
            store.catch_up()
            cluster.admin("peer", "disable", store.namespace)
            address = cluster.address(added)
            cluster.admin("move", region.encoded_name, address)
            cluster.remove_server(added)
            until(lambda: [r.server != address for r in client.regions(name)] == [True], "the region is not open")
            cluster.admin("peer", "enable", store.namespace)
            client.put(name, ROWS[1], {"f:a": bytes(8)})
            with monkeypatch.context() as patch:
                patch.setattr(resolver, "BARRIER_PATIENCE", 20.0)
                with pytest.raises(NotShipped, match=region.encoded_name):
                    store.catch_up()
            assert [one.region for one in store.stalled()] == [region.encoded_name]
            [unfinished] = [r for r in cluster.admin("check", store.namespace)["unfinished"] if r["table"] == name]
            told(f"waits for ever: {unfinished}")
            assert cluster.admin("finish", store.namespace, region.encoded_name) == {"finished": unfinished}
            store.catch_up()
            assert [row[0] for row in shown(store, store.newest_cut())] == [-1, 0]
            assert list(store.stalled()) == []
            assert cluster.admin("finish", store.namespace, region.encoded_name) == {"finished": None}
    finally:
        if added in cluster.roles:
            cluster.remove_server(added)
