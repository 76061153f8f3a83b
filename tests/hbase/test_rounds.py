"""A round waits for barriers without holding up anything, and says which regions it has been waiting for."""

from __future__ import annotations

import time
from collections.abc import Callable

import pytest
from foreign import ROWS, attach, foreign_table, shown
from hbase_stores import new_store
from thrift_client import Client

from tailrace.errors import NotShipped
from tailrace.store.hbase import placement, resolver, rounds
from tailrace.store.hbase.admin import Admin
from tailrace.store.hbase.hbase_store import HbaseStore
from tailrace_hbase.local_cluster import LocalCluster

pytestmark = pytest.mark.hbase


def advance_until(store: HbaseStore, condition: Callable[[], bool], seconds: float = 120) -> None:
    end = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < end, (store.newest_cut(), store.stalled())
        store.advance()
        time.sleep(0.05)


def test_a_region_that_ships_nothing_is_reported_until_it_does(
    cluster: LocalCluster, client: Client, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(rounds, "STALLED", 0.0)
    monkeypatch.setattr(rounds, "HEARTBEAT", 1.0)
    with new_store(cluster) as store, foreign_table(client, splits=(ROWS[2],)) as name:
        attach(store, name)
        store.catch_up()
        cluster.admin("peer", "disable", store.namespace)
        advance_until(store, lambda: len(store.stalled()) == 2)
        assert {one.region for one in store.stalled()} == {r.encoded_name for r in client.regions(name)}
        assert {one.table for one in store.stalled()} == {name}
        client.put(name, ROWS[0], {"f:a": bytes(8)})
        before = store.stalled()
        monkeypatch.setattr(resolver, "BARRIER_PATIENCE", 2.0)
        with pytest.raises(NotShipped, match=f"nothing came from region [0-9a-f]+ of table {name}"):
            store.catch_up()
        store.advance()
        assert store.stalled() == before, "the time since when is that of the first report"
        cluster.admin("peer", "enable", store.namespace)
        advance_until(store, lambda: not store.stalled())
        assert len(shown(store, store.newest_cut())) == 1


def test_barriers_of_another_store_do_not_end_a_round(
    cluster: LocalCluster, client: Client, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Two stores tail one table, and each sees the barriers of the other in its log."""
    monkeypatch.setattr(resolver, "BARRIER_PATIENCE", 3.0)
    with new_store(cluster) as store, new_store(cluster) as other, foreign_table(client) as name:
        for one in (store, other):
            attach(one, name)
            one.catch_up()
        [region] = Admin(store.client).regions(name)
        barriers = {(name, region.start or b"\0"): region}
        with monkeypatch.context() as patched:
            patched.setattr(store.resolver._tracking, "put_barriers", lambda _: (b"not put", barriers))
            client.put(name, ROWS[0], {"f:a": bytes(8)})
            other.catch_up()
            with pytest.raises(NotShipped):
                store.catch_up()
        store.catch_up()
        assert shown(store, store.newest_cut()) == shown(other, other.newest_cut())


def test_a_round_that_nobody_asked_for_leaves_the_cut_alone_if_nothing_changed(
    cluster: LocalCluster, client: Client, monkeypatch: pytest.MonkeyPatch
) -> None:
    """So a store at rest has no epochs."""
    monkeypatch.setattr(rounds, "HEARTBEAT", 0.0)
    with new_store(cluster) as store, foreign_table(client) as name:
        attach(store, name)
        store.catch_up()
        cut, begun = store.newest_cut(), store.resolver.tail.begun
        advance_until(store, lambda: store.resolver.tail.begun >= begun + 3)
        assert store.newest_cut() == cut


def test_administrative_events_are_kept(cluster: LocalCluster, client: Client, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(placement, "GLANCE", 0.0)
    with new_store(cluster) as store, foreign_table(client) as name:
        attach(store, name)
        [parent] = client.regions(name)
        store.advance()
        assert list(store.administrative_events()) == []
        cluster.admin("split", name, "m")
        daughters = tuple(sorted(region.encoded_name for region in client.regions(name)))
        advance_until(store, lambda: len(store.administrative_events()) > 0)
        [event] = store.administrative_events()
        assert (event.number, event.kind, event.table) == (1, "split", name)
        assert (event.before, event.regions) == ((parent.encoded_name,), daughters)
        store.advance()
        assert list(store.administrative_events()) == [event]
