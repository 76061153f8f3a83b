"""Processes that resolve at a time, as far as locks let them: one that stalls loses its lock, and goes on later."""

from __future__ import annotations

import struct
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import pytest
from foreign import ROWS, TABLE, attach, foreign_table, shown
from hbase_stores import new_store
from msgspec import structs
from thrift_client import Client

from tailrace.errors import Conflict, StoreUnavailable
from tailrace.store.hbase.hbase_store import HbaseStore
from tailrace.store.hbase.images import image_prefix
from tailrace.store.hbase.mapping import MAPPINGS
from tailrace.store.hbase.raw_log import SCAN
from tailrace.store.hbase.resolved_log import ResolvedLog
from tailrace.store.hbase.resolver import Correction
from tailrace.store.hbase.tail import FORMING, TRIMMED, Forming
from tailrace.store.hbase.tracking import Tracking, new_scan_name
from tailrace_hbase.local_cluster import LocalCluster

pytestmark = pytest.mark.hbase

PATIENCE = 60.0


def put(client: Client, name: str, row: bytes, value: int) -> None:
    client.put(name, row, {"f:a": struct.pack(">q", value)})


@contextmanager
def one_resolved_row(cluster: LocalCluster, client: Client) -> Iterator[tuple[HbaseStore, str]]:
    """A store with a table of HBase, whose name it yields, too. The table has one row."""
    with new_store(cluster) as store, foreign_table(client) as name:
        attach(store, name)
        put(client, name, ROWS[0], 1)
        store.catch_up()
        yield store, name


def scan_chunks(store: HbaseStore) -> list[bytes]:
    """The chunks of scans in the raw log."""
    wal = store.client.table(f"{store.namespace}:wal", b"w")
    return [row for page in wal.scan(b"", None, keys_only=True) for row, _ in page if row.startswith(SCAN.encode())]


def test_a_round_does_not_end_beside_a_transaction_of_another_process(
    cluster: LocalCluster, client: Client, monkeypatch: pytest.MonkeyPatch
) -> None:
    with new_store(cluster) as store, foreign_table(client) as name:
        attach(store, name)
        store.catch_up()
        before = store.newest_cut()
        put_barriers = Tracking.put_barriers

        def begin_a_transaction(*arguments: Any) -> Any:
            store.change_documents({FORMING.name: Forming(before.transaction + 1, {})})
            return put_barriers(*arguments)

        with monkeypatch.context() as patched:
            patched.setattr(Tracking, "put_barriers", begin_a_transaction)
            with pytest.raises(Conflict):
                store.catch_up()
        assert store.newest_cut() == before
        put(client, name, ROWS[0], 1)
        store.catch_up()
        assert len(shown(store, store.newest_cut())) == 1


def test_a_round_is_begun_anew_after_an_error(
    cluster: LocalCluster, client: Client, monkeypatch: pytest.MonkeyPatch
) -> None:
    with new_store(cluster) as store, foreign_table(client) as name:
        attach(store, name)
        store.catch_up()
        put(client, name, ROWS[0], 1)
        append, wanted = ResolvedLog.append, (store.resolver.tail.begun + 1) << 24
        store.position(wanted)

        def fail_once(*arguments: Any) -> Any:
            monkeypatch.setattr(ResolvedLog, "append", append)
            raise StoreUnavailable(url="here", reason="a test")

        monkeypatch.setattr(ResolvedLog, "append", fail_once)
        with pytest.raises(StoreUnavailable):
            store.catch_up()
        end = time.monotonic() + PATIENCE
        while store.newest_cut().transaction < wanted:
            assert time.monotonic() < end
            store.advance()


def test_a_table_is_scanned_when_all_its_regions_ship(cluster: LocalCluster, client: Client) -> None:
    with new_store(cluster) as store, foreign_table(client) as name:
        put(client, name, ROWS[0], 1)
        cluster.admin("peer", "disable", store.namespace)
        attach(store, name)
        resolving = threading.Thread(target=store.catch_up)
        resolving.start()
        try:
            time.sleep(2)
            assert not scan_chunks(store)
            assert store.document(MAPPINGS, TABLE.id).scan  # type: ignore[union-attr]
            put(client, name, ROWS[1], 2)
        finally:
            cluster.admin("peer", "enable", store.namespace)
            resolving.join()
        assert len(shown(store, store.newest_cut())) == 2


def test_a_scan_that_no_table_names_does_not_count(cluster: LocalCluster, client: Client) -> None:
    with new_store(cluster) as store, foreign_table(client) as name:
        put(client, name, ROWS[0], 1)
        attach(store, name)
        store.catch_up()
        mapping = store.document(MAPPINGS, TABLE.id)
        assert mapping is not None
        stale = structs.replace(mapping, scan=new_scan_name())
        Tracking(store.client, store.namespace).scan(stale)
        client.delete(name, ROWS[0])
        assert scan_chunks(store)
        later = HbaseStore(store.ref)
        later.catch_up()
        assert not shown(later, later.newest_cut())
        assert not scan_chunks(later)
        later.close()


def test_an_image_that_changed_since_is_not_corrected(cluster: LocalCluster, client: Client) -> None:
    with one_resolved_row(cluster, client) as (store, name):
        compared = store.newest_cut()
        [key] = [k for n in range(store.nodes) for k in keys_of_images(store, n)]
        [old] = store.images.read([key], compared.transaction)
        assert old is not None
        put(client, name, ROWS[0], 2)
        store.catch_up()
        expected = shown(store, store.newest_cut())
        store.resolver.correct([Correction(key, old, compared.transaction)])
        assert shown(store, store.newest_cut()) == expected
        assert shown(store, compared) != expected


def keys_of_images(store: HbaseStore, node: int) -> list[bytes]:
    prefix = image_prefix(TABLE.id, node)
    return [prefix + key for page in store.images.scan(prefix, store.newest_cut().transaction) for key, _, _ in page]


def test_the_cut_up_to_which_logs_are_trimmed_never_goes_back(
    cluster: LocalCluster, client: Client, monkeypatch: pytest.MonkeyPatch
) -> None:
    with new_store(cluster) as store, foreign_table(client) as name:
        attach(store, name)
        cuts = []
        for number in range(2):
            put(client, name, ROWS[0], number)
            store.catch_up()
            cuts.append(store.newest_cut())
        other, change = HbaseStore(store.ref), store._documents.change_documents

        def trim_first(*arguments: Any, **named: Any) -> Any:
            monkeypatch.setattr(store._documents, "change_documents", change)
            other.trim(cuts[1])
            return change(*arguments, **named)

        monkeypatch.setattr(store._documents, "change_documents", trim_first)
        store.trim(cuts[0])
        assert store.document(TRIMMED) == cuts[1].transaction
        other.close()


def test_deleted_rows_are_forgotten_when_all_earlier_changes_have_come(cluster: LocalCluster, client: Client) -> None:
    with one_resolved_row(cluster, client) as (store, name):
        client.delete(name, ROWS[0])
        cut, end = store.newest_cut(), time.monotonic() + PATIENCE
        while store.newest_cut() == cut:  # resolved, but in no round that began after it
            assert time.monotonic() < end
            store.advance()
        store.trim(store.newest_cut())
        rows = store.client.table(f"{store.namespace}:rows", b"r")
        assert [row for page in rows.scan(b"", None) for row, _ in page]
        store.catch_up()
        store.trim(store.newest_cut())
        assert not [row for page in rows.scan(b"", None) for row, _ in page]
