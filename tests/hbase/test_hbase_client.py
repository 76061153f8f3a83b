"""The client of HBase: scans and batches, servers that go away, processes that fork."""

from __future__ import annotations

import os
import random
import signal
import socket
import threading
from collections.abc import Iterator

import pytest
from lossy_proxy import LossyProxy

from tailrace.errors import RequestRefused, StoreUnavailable
from tailrace.store.hbase.admin import ALL_VERSIONS, Admin, Family
from tailrace.store.hbase.client import Client, Deletion, HbaseTable
from tailrace.store.hbase.row_ranges import RowRange
from tailrace_hbase.local_cluster import LocalCluster

pytestmark = pytest.mark.hbase
ROWS = [b"r%05d" % i for i in range(12_000)]
LIVE = [row for i, row in enumerate(ROWS) if i % 10]
NAME = "tailrace_test_client"


@pytest.fixture(scope="module")
def hbase(cluster: LocalCluster) -> Iterator[Client]:
    client = Client("127.0.0.1", cluster.port)
    Admin(client).drop_table(NAME)
    Admin(client).create_table(NAME, [Family(b"f", ALL_VERSIONS), Family(b"g")], [b"r03000", b"r09000"])
    yield client
    Admin(client).drop_table(NAME)
    client.close()


@pytest.fixture(scope="module")
def table(hbase: Client) -> HbaseTable:
    """All rows at timestamp 10, every second one again at 20, every tenth deleted at 30."""
    table = hbase.table(NAME, b"f")
    table.put_many([(row, {b"v": b"old " + row, b"w": b""}) for row in ROWS], timestamp=10)
    table.put_many([(row, {b"v": b"new " + row}) for row in ROWS[::2]], timestamp=20)
    table.delete_many([Deletion(row, 30) for row in ROWS[::10]])
    return table


def test_reads_see_the_newest_cells_before_a_time(table: HbaseTable) -> None:
    assert table.get(ROWS[1]) == {b"v": (b"old " + ROWS[1], 10), b"w": (b"", 10)}
    assert table.get(ROWS[2], qualifiers=[b"v"]) == {b"v": (b"new " + ROWS[2], 20)}
    assert table.get(ROWS[2], before=20, qualifiers=[b"v"]) == {b"v": (b"old " + ROWS[2], 10)}
    assert table.get(ROWS[2], prefixes=[b"w", b"x"]) == {b"w": (b"", 10)}
    assert (table.get(ROWS[0]), table.get(ROWS[2], before=10), table.get(b"none")) == ({}, {}, {})
    wanted = [*ROWS[::-3], b"none"]
    random.Random(1).shuffle(wanted)
    assert table.get_many(wanted, qualifiers=[b"v"], before=15)[:50] == [
        table.get(row, before=15, qualifiers=[b"v"]) for row in wanted[:50]
    ]
    live = set(LIVE)
    assert [bool(cells) for cells in table.get_many(wanted)] == [row in live for row in wanted]
    assert table.look_up(wanted, before=15) == table.get_many(wanted, before=15)
    assert table.look_up(wanted[:9]) == table.get_many(wanted[:9])


@pytest.mark.parametrize("reverse", [False, True])
@pytest.mark.parametrize(
    ("start", "stop"),
    [(b"", None), (ROWS[11], ROWS[9_001]), (b"", ROWS[3_000]), (ROWS[11_990], None), (b"a", b"b"), (b"z", b"a")],
)
def test_scans_in_both_directions(table: HbaseTable, start: bytes, stop: bytes | None, reverse: bool) -> None:
    expected = [row for row in LIVE if start <= row and (stop is None or row < stop)]
    for size in (1_000, 7):
        rows = [row for page in table.scan(start, stop, size=size, reverse=reverse) for row, _ in page]
        assert rows == (expected[::-1] if reverse else expected)


def test_a_scan_over_ranges_reads_each_range(table: HbaseTable) -> None:
    ranges = [RowRange(b"r%03d" % i, b"r%03d" % (i + 1)) for i in range(0, 120, 2)]
    ranges += [RowRange(row, row + b"\x00") for row in ROWS[11_000::3]]
    pages = list(table.scan_ranges(ranges, qualifiers=[b"v"], before=20))
    expected = [row for row in LIVE if any(r.low <= row < r.high for r in ranges)]
    assert [row for page in pages for row, _ in page] == expected
    assert {cells[b"v"][1] for page in pages for _, cells in page} == {10}


def test_keys_and_columns_of_any_bytes(hbase: Client) -> None:
    table, every = hbase.table(NAME, None), bytes(range(256))
    table.mutate_row(every, {b"f:" + every: every, b"g:a:b": b"1"})
    assert {q: value for q, (value, _) in table.get(every).items()} == {b"f:" + every: every, b"g:a:b": b"1"}
    table.mutate_row(every, {b"g:c": b"2"}, [b"f:" + every, b"g:a:b"])
    assert list(table.get(every)) == [b"g:c"]
    assert [row for page in table.scan(every, every + b"\x00") for row, _ in page] == [every]
    table.delete_many([Deletion(every, 2**62)])
    assert table.get(every) == {}


def test_large_values_and_many_rows(hbase: Client) -> None:
    table, rng = hbase.table(NAME, b"g"), random.Random(3)
    rows = {b"large %03d" % i: rng.randbytes(rng.choice([10, 3 << 20 if i % 10 == 0 else 100])) for i in range(40)}
    table.put_many([(row, {b"v": value}) for row, value in rows.items()], timestamp=1)
    found = {row: cells[b"v"][0] for page in table.scan(b"large", b"largf") for row, cells in page}
    assert found == rows
    table.delete_many([Deletion(row, 1) for row in rows])


def test_regions_and_families(hbase: Client) -> None:
    admin = Admin(hbase)
    regions = admin.regions(NAME)
    assert [(r.start, r.end) for r in regions] == [(b"", b"r03000"), (b"r03000", b"r09000"), (b"r09000", b"")]
    names = {row.rpartition(b".")[0].rpartition(b".")[2].decode() for row in meta_rows(hbase)}
    assert {region.name for region in regions} <= names
    assert sorted(admin.describe(NAME), key=lambda f: f.name) == [Family(b"f", ALL_VERSIONS), Family(b"g")]
    admin.create_table(NAME, [Family(b"other")])  # it exists, so nothing happens
    assert len(admin.describe(NAME)) == 2


def meta_rows(hbase: Client) -> list[bytes]:
    return [row for page in hbase.table("hbase:meta", b"info").scan(b"", None) for row, _ in page]


def test_a_request_that_cannot_succeed_is_not_repeated(hbase: Client) -> None:
    with pytest.raises(RequestRefused) as error:
        hbase.table("no_such_table", b"f").get(b"row")
    assert error.value.request == "get"


def test_no_server_is_an_error_after_some_patience() -> None:
    with socket.create_server(("127.0.0.1", 0)) as listener:
        port = listener.getsockname()[1]
    client = Client("127.0.0.1", port, patience=0.3)
    with pytest.raises(StoreUnavailable) as error:
        client.table(NAME, b"f").get(b"row")
    assert error.value.url == f"hbase://127.0.0.1:{port}"


def test_lost_connections_lose_no_rows(hbase: Client, cluster: LocalCluster, table: HbaseTable) -> None:
    proxy = LossyProxy(cluster.port, {b"putMultiple", b"get", b"getScannerResults"}, share=0.3)
    client = Client("127.0.0.1", proxy.port)
    through = client.table(NAME, b"f")
    for i in range(20):
        through.put_many([(b"lossy %02d" % i, {b"v": b"%d" % i})], timestamp=1)
    assert [through.get(b"lossy %02d" % i)[b"v"][0] for i in range(20)] == [b"%d" % i for i in range(20)]
    rows = [row for page in through.scan(b"lossy", b"lossz", size=3) for row, _ in page]
    assert rows == [b"lossy %02d" % i for i in range(20)]
    client.close()
    proxy.close()
    assert min(proxy.lost.values()) > 0
    table.delete_many([Deletion(row, 1) for row in rows])


def test_a_forked_process_has_connections_of_its_own(table: HbaseTable) -> None:
    """Parent and child read at the same time. With a shared connection they would get each other's answers."""
    assert len(table.get_many(ROWS[:3_000])) == 3_000
    child = os.fork()
    if child == 0:
        signal.alarm(120)  # else a child that waits for a thread of its parent would wait for ever
        try:
            wrong = sum(table.get(row) != {} for row in ROWS[::10][:100])
            wrong += sum(not cells for cells in table.get_many(ROWS[1::10]))
            os._exit(min(wrong, 1))
        finally:
            os._exit(2)
    assert all(table.get(row) for row in ROWS[1::10][:100])
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0


def test_many_threads_share_a_client(table: HbaseTable) -> None:
    failed: list[bytes] = []

    def read(part: list[bytes]) -> None:
        failed.extend(row for row in part if table.get(row, qualifiers=[b"v"])[b"v"][0][4:] != row)

    threads = [threading.Thread(target=read, args=(LIVE[n::400],)) for n in range(20)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert failed == []
