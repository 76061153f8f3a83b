"""The endpoint ships what clients write: every kind of change, of every size, and nothing else."""

from __future__ import annotations

import random
import time
import uuid

import pytest
from namespaces import Logged
from raw_log import DELETE, DELETE_COLUMN, DELETE_FAMILY, DELETE_FAMILY_VERSION, PUT, Cell
from thrift_client import Client, hbase, tcolumn, tname, tput

from tailrace_hbase.local_cluster import LocalCluster

pytestmark = pytest.mark.hbase

Told = tuple[int, str, bytes]


def told(cells: list[Cell]) -> list[Told]:
    return [(cell.type, cell.column, cell.value) for cell in cells]


def changes_of(logged: Logged, table: str, row: bytes) -> list[Cell]:
    logged.log.await_barriers(table)
    return [cell for cell in logged.log.cells(table) if cell.row == row]


def test_puts_are_logged_with_the_cells_they_have(logged: Logged, client: Client) -> None:
    with logged.table(("f", "g")) as table:
        client.put(table, b"r", {"f:a": b"1", "f:b": b"2", "g:c": b"3"})
        client.put(table, b"r", {"f:b": b"4"})
        client.put(table, b"r", {"g:": b""}, timestamp=12)
        cells = changes_of(logged, table, b"r")
    assert told(cells) == [
        (PUT, "f:a", b"1"),
        (PUT, "f:b", b"2"),
        (PUT, "g:c", b"3"),
        (PUT, "f:b", b"4"),
        (PUT, "g:", b""),
    ]
    assert len({cell.sequence_id for cell in cells[:3]}) == 1
    assert cells[4].timestamp == 12
    assert all(abs(cell.timestamp / 1000 - time.time()) < 3600 for cell in cells[:4])


def test_every_kind_of_delete_is_logged(logged: Logged, client: Client) -> None:
    kinds = hbase.TDeleteType
    with logged.table(("f", "g")) as table:
        client.put(table, b"r", {"f:a": b"1"}, timestamp=5)
        client.delete(table, b"r", ["f:a"], kind=kinds.DELETE_COLUMN)  # the newest version, which is 5
        client.delete(table, b"r", ["f:a"], kind=kinds.DELETE_COLUMNS, timestamp=7)
        client.delete(table, b"r", ["g"], kind=kinds.DELETE_FAMILY, timestamp=8)
        client.delete(table, b"r", ["g"], kind=kinds.DELETE_FAMILY_VERSION, timestamp=9)
        client.delete(table, b"r", timestamp=10)  # the whole row
        cells = changes_of(logged, table, b"r")
    assert [(cell.type, cell.column, cell.timestamp) for cell in cells] == [
        (PUT, "f:a", 5),
        (DELETE, "f:a", 5),
        (DELETE_COLUMN, "f:a", 7),
        (DELETE_FAMILY, "g:", 8),
        (DELETE_FAMILY_VERSION, "g:", 9),
        (DELETE_FAMILY, "f:", 10),
        (DELETE_FAMILY, "g:", 10),
    ]
    assert {cell.value for cell in cells[1:]} == {b""}


def test_an_atomic_change_of_a_row_is_one_edit(logged: Logged, client: Client) -> None:
    with logged.table() as table:
        client.put(table, b"r", {"f:a": b"1", "f:b": b"2"})
        mutations = [
            hbase.TMutation(put=tput(b"r", {"f:a": b"3"})),
            hbase.TMutation(deleteSingle=hbase.TDelete(row=b"r", columns=[tcolumn("f:b")])),
        ]
        client.mutateRow(table.encode(), hbase.TRowMutations(row=b"r", mutations=mutations))
        cells = changes_of(logged, table, b"r")
    assert told(cells[2:]) == [(PUT, "f:a", b"3"), (DELETE_COLUMN, "f:b", b"")]
    assert cells[2].sequence_id == cells[3].sequence_id > cells[1].sequence_id


def test_a_conditional_put_is_logged_if_it_happened(logged: Logged, client: Client) -> None:
    with logged.table() as table:
        for value in (b"1", b"2"):
            client.checkAndPut(table.encode(), b"r", b"f", b"a", None, tput(b"r", {"f:a": value}))
        cells = changes_of(logged, table, b"r")
    assert told(cells) == [(PUT, "f:a", b"1")]


def test_rows_larger_than_a_chunk(logged: Logged, client: Client) -> None:
    noise = random.Random(7).randbytes(700_000)
    with logged.table() as table:
        client.put(table, b"a", {"f:small": b"1"})
        client.put(table, b"b", {"f:large": noise})
        client.put(table, b"c", {"f:small": b"2"})
        logged.log.await_barriers(table)
        cells = logged.log.cells(table)
        chunks = [chunk for chunk in logged.log.chunks() if chunk.table == table]
    assert [(cell.row, cell.value) for cell in cells] == [(b"a", b"1"), (b"b", noise), (b"c", b"2")]
    assert max(chunk.size for chunk in chunks) > 700_000


def test_an_edit_larger_than_a_cell_of_hbase_may_be(logged: Logged, client: Client) -> None:
    """HBase takes cells of up to 10 MiB, but a row may have several of them, all in one edit."""
    noise = random.Random(8).randbytes(6 << 20)
    with logged.table() as table:
        client.put(table, b"a", {"f:small": b"1"})
        client.put(table, b"b", {f"f:large{n}": noise for n in range(4)})
        client.put(table, b"c", {"f:small": b"2"})
        logged.log.await_barriers(table)
        cells = logged.log.cells(table)
        pieces = [len(row.columnValues) for row in client.scan(f"{logged.namespace}:wal", page=20)]
    assert [(cell.row, cell.column) for cell in cells] == [
        (b"a", "f:small"),
        *((b"b", f"f:large{n}") for n in range(4)),
        (b"c", "f:small"),
    ]
    assert {cell.value for cell in cells[1:5]} == {noise}
    assert max(pieces) == 4


def test_many_small_rows_share_chunks(logged: Logged, client: Client) -> None:
    rows = {b"%05d" % number: b"%d" % (number * 7) for number in range(20_000)}
    keys = list(rows)
    with logged.table(splits=(b"05", b"15")) as table:
        for start in range(0, len(keys), 1000):
            client.put_rows(table, ((key, {"f:v": rows[key]}) for key in keys[start : start + 1000]))
        logged.log.await_barriers(table)
        cells = logged.log.cells(table)
        regions = {region.encoded_name for region in client.regions(table)}
        chunks = [chunk for chunk in logged.log.chunks() if chunk.table == table]
    assert {cell.row: cell.value for cell in cells} == rows
    assert len(cells) == len(rows)
    assert {chunk.region for chunk in chunks} == regions
    assert len(chunks) <= 3 * 20 + 3, "a chunk per edit at most, not per row"


def test_marks_tell_region_and_last_sequence_id(logged: Logged, client: Client) -> None:
    with logged.table(splits=(b"m",)) as table:
        client.put(table, b"a", {"f:v": b"1"})
        client.put(table, b"z", {"f:v": b"2"})
        logged.log.await_barriers(table)
        marks = [mark for mark in logged.log.marks() if mark.table == table]
        lasts = {chunk.region: chunk.last for chunk in logged.log.chunks() if chunk.table == table}
        regions = client.regions(table)
    assert {mark.region: mark.sequence_id for mark in marks} == lasts
    assert {(m.region, m.id, m.start, m.end) for m in marks} == {
        (r.encoded_name, r.id, r.start, r.end) for r in regions
    }


def test_only_tracked_tables_are_logged(logged: Logged, client: Client) -> None:
    with logged.table(tracked=False) as silent, logged.table() as table:
        for name in (silent, table):  # one server has one WAL, so its order is that of the log
            logged.move(name, "rs1")
        client.put(silent, b"r", {"f:v": b"before"})
        client.put(table, b"r", {"f:v": b"1"})
        logged.log.await_barriers(table)
        logged.track(silent)
        client.put(silent, b"r", {"f:v": b"after"})
        logged.log.await_barriers(silent)
        assert [cell.value for cell in logged.log.cells(silent)] == [b"after"]
        assert [cell.value for cell in logged.log.cells(table)] == [b"1"]


def test_families_with_scope_0_are_not_logged(logged: Logged, client: Client) -> None:
    with logged.table(("f",)) as table:
        client.addColumnFamily(tname(table), hbase.TColumnFamilyDescriptor(name=b"g", scope=0))
        client.put(table, b"r", {"f:v": b"1", "g:v": b"2"})
        cells = changes_of(logged, table, b"r")
    assert told(cells) == [(PUT, "f:v", b"1")]


def test_own_tables_are_never_logged(logged: Logged, client: Client) -> None:
    own = f"{logged.namespace}:own"
    client.create_table(own, ["f"], scope=1)
    logged.track(own)
    try:
        with logged.table() as table:
            client.put(own, b"r", {"f:v": b"1"})
            client.put(table, b"r", {"f:v": b"1"})
            logged.log.await_barriers(table)
            assert {chunk.table for chunk in logged.log.chunks()}.isdisjoint({own, f"{logged.namespace}:wal"})
    finally:
        client.drop_table(own)


def test_nothing_is_lost_while_the_log_cannot_be_written(logged: Logged, client: Client) -> None:
    wal = tname(f"{logged.namespace}:wal")
    with logged.table() as table:
        client.disableTable(wal)
        try:
            for number in range(10):
                client.put(table, b"%d" % number, {"f:v": b"1"})
        finally:
            client.enableTable(wal)
        logged.log.await_barriers(table)
        assert [cell.row for cell in logged.log.cells(table)] == [b"%d" % number for number in range(10)]


def test_a_dropped_table_does_not_stop_the_log(logged: Logged, client: Client) -> None:
    """Its edits are shipped by servers that cannot look up the region any more."""
    logged.cluster.admin("peer", "disable", logged.namespace)
    with logged.table() as table:
        with logged.table() as dropped:
            client.put(dropped, b"r", {"f:v": b"1"})
        client.put(table, b"r", {"f:v": b"2"})
        logged.cluster.admin("peer", "enable", logged.namespace)
        logged.log.await_barriers(table)
        assert [cell.value for cell in logged.log.cells(table)] == [b"2"]
        assert [cell.value for cell in logged.log.cells(dropped)] == [b"1"]
        assert [mark.id for mark in logged.log.marks() if mark.table == dropped] == [0]


def test_a_peer_that_is_not_serial_is_refused(cluster: LocalCluster, client: Client) -> None:
    for lived in Logged.lived(cluster, f"n{uuid.uuid4().hex[:8]}", "--not-serial"):
        with lived.table() as table:
            client.put(table, b"r", {"f:v": b"1"})
            said, end = (
                f"Peer tailrace_{lived.namespace} is not serial: changes would come in a wrong order",
                time.monotonic() + 60,
            )
            while not any(said in log.read_text(errors="replace") for log in cluster.directory.glob("logs/rs*.log")):
                assert time.monotonic() < end
                time.sleep(0.5)
            assert not lived.log.marks()
