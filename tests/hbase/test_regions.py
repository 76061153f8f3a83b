"""Nothing is missing or out of order when regions move, split and merge and servers die, and every cut is sound."""

from __future__ import annotations

import time
import uuid
from collections import Counter
from collections.abc import Callable, Iterator
from itertools import groupby

import pytest
from load import Load
from namespaces import BANDWIDTH, LONG, Logged
from raw_log import broken_cuts, covered, timelines
from thrift_client import Client

from tailrace_hbase.local_cluster import LocalCluster

pytestmark = pytest.mark.hbase

ROWS = [b"k%02d" % number for number in range(30)]


def judge(logged: Logged, table: str, load: Load) -> str:
    """Compares the log with what the writers did, and every cut with the log. Returns figures."""
    logged.log.await_barriers(table)
    cells = logged.log.cells(table)
    lines = timelines(cells)
    for writer in load.writers:
        for row in writer.rows:
            values = [int(value) for value, _ in groupby(cell.value for cell in lines[row])]
            assert values in (list(range(1, writer.count + 1)), list(range(1, writer.count + 2))), row
    cuts = load.reader.cuts
    assert broken_cuts(cells, cuts) == []
    for cut, seen in load.reader.seen:
        assert covered(cells, cut) <= set(seen), "an edit came after the mark that covers it"
    regions = len({cell.region for cell in cells})
    return f"{len(cells)} cells of {regions} regions, {len(cuts)} cuts, {len(load.reader.seen)} of them read"


@pytest.mark.soak
def test_moves_splits_and_merges_under_load(logged: Logged, client: Client, told: Callable[[str], None]) -> None:
    """No region returns to a server: for two minutes servers send clients of a region after it, maybe in a circle."""
    admin = logged.cluster.admin
    with logged.table(splits=(b"k10", b"k20")) as table:
        logged.move(table, "rs1", b"k10")
        load = Load(logged.cluster.port, logged.namespace, table, ROWS)
        with load.running():
            admin("split", table, "k15")
            load.await_progress()
            for row, role in ((b"k15", "rs2"), (b"k10", "rs3"), (b"k15", "rs3")):
                logged.move(table, role, row)
                load.await_progress()
            admin("merge", *(r.encoded_name for r in client.regions(table) if r.start in (b"k10", b"k15")))
            load.await_progress()
            for role in ("rs1", "rs2", "rs3"):
                admin("rollwal", logged.cluster.address(role))
            logged.move(table, "rs1", b"k10")
            load.await_progress()
        told(judge(logged, table, load))


def test_a_server_is_killed_under_load(logged: Logged, client: Client, told: Callable[[str], None]) -> None:
    """The server that dies has most regions of the table, among them daughters of a region that was just split."""
    cluster = logged.cluster
    with logged.table(splits=(b"k10", b"k20")) as table:
        for row in (b"", b"k10"):
            logged.move(table, "rs2", row)
        load = Load(cluster.port, logged.namespace, table, ROWS)
        with load.running():
            cluster.admin("split", table, "k15")
            victims = Counter(region.server for region in client.regions(table))
            assert victims[cluster.address("rs2")] >= 2
            began = time.monotonic()
            cluster.kill("rs2")
            load.await_progress()
            told(f"writers went on after {time.monotonic() - began:.0f} s")
            cluster.restart("rs2")
            load.await_progress()
            logged.log.await_barriers(table)
        told(judge(logged, table, load))


@pytest.fixture(scope="module", params=[True, False], ids=["serial", "not_serial"])
def forced(request: pytest.FixtureRequest, cluster: LocalCluster) -> Iterator[tuple[Logged, bool]]:
    options = () if request.param else ("--not-serial", "--any-order")
    for logged in Logged.lived(cluster, f"s{uuid.uuid4().hex[:8]}", f"--bandwidth={BANDWIDTH}", *options):
        yield logged, request.param


@pytest.mark.parametrize("change", ["move", pytest.param("split", marks=pytest.mark.soak)])
def test_only_a_serial_peer_keeps_the_order(forced: tuple[Logged, bool], client: Client, change: str) -> None:
    """A row is changed on two servers, one after the other. The first has a long WAL to ship, the second has nothing.

     Without serial replication the second change is in the log first. This has to happen here, else the test proves
    nothing about the serial peer.
    """
    logged, serial = forced
    admin = logged.cluster.admin
    with logged.table() as long, logged.table() as table:
        parent = logged.move(table, "rs1")
        logged.move(long, "rs1")
        admin("peer", "disable", logged.namespace)
        for start in range(0, LONG, 1000):
            client.put_rows(long, ((b"%06d" % n, {"f:v": b"x" * 1000}) for n in range(start, start + 1000)))
        client.put(table, b"k", {"f:v": b"first"})
        if change == "split":
            admin("split", table, "c")
        daughter = logged.move(table, "rs2", b"k")
        client.put(table, b"k", {"f:v": b"second"})
        admin("peer", "enable", logged.namespace)
        states = set()
        end = time.monotonic() + 120
        while (b"first", b"second") not in states:
            assert time.monotonic() < end, states
            cut = logged.log.marks()
            cells = logged.log.cells(table, daughter) + (logged.log.cells(table, parent) if parent != daughter else [])
            states.add(tuple(sorted(cell.value for cell in covered(cells, cut))))
        assert ((b"second",) in states) == (not serial)
