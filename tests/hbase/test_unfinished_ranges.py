"""`Admin check` lists regions that wait for an earlier part of their log, and `Admin finish` lets them go on."""

from __future__ import annotations

from typing import Any

import pytest
from foreign import ROWS, attach, foreign_table, shown
from hbase_stores import new_store
from thrift_client import Client

from tailrace_hbase.local_cluster import LocalCluster

pytestmark = pytest.mark.hbase


def test_an_unfinished_range_is_listed_and_can_be_finished(cluster: LocalCluster, client: Client) -> None:
    """The peer is disabled, so what the first server logs is not shipped when the second one has the region.

    HBASE-29499 leaves the same state behind for ever. Nothing is left out by `finish`.
    """
    with new_store(cluster) as store, foreign_table(client) as name:

        def unfinished() -> list[dict[str, Any]]:
            found = cluster.admin("check", store.namespace)["unfinished"]
            return [one for one in found if one["table"] == name]

        attach(store, name)
        store.catch_up()
        cluster.admin("peer", "disable", store.namespace)
        client.put(name, ROWS[0], {"f:a": bytes(8)})
        [region] = client.regions(name)
        cluster.admin("move", region.encoded_name)
        client.put(name, ROWS[1], {"f:a": bytes(8)})
        [waiting] = unfinished()
        assert waiting["region"] == region.encoded_name
        assert waiting["shipped"] < waiting["opened"] - 1
        assert cluster.admin("finish", store.namespace, region.encoded_name) == {"finished": waiting}
        assert unfinished() == []
        cluster.admin("peer", "enable", store.namespace)
        store.catch_up()
        while len(shown(store, store.newest_cut())) < 2:  # without the order, the barrier may come before the rest
            store.catch_up()
        assert [row[0] for row in shown(store, store.newest_cut())] == [-1, 0]
