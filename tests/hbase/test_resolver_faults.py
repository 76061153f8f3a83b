"""A process that resolves is killed at each step. The next one goes on: nothing is lost, nothing comes twice."""

from __future__ import annotations

import os
import random
import signal
import subprocess
import sys
import time
from contextlib import closing
from pathlib import Path

import pytest
from foreign import ROWS, ForeignClient, attach, foreign_table, logged, shown
from hbase_stores import new_store
from thrift_client import Client

from tailrace.store.hbase.hbase_store import HbaseStore
from tailrace.store.hbase.raw_log import find_late
from tailrace.store.hbase.resolver import LARGEST
from tailrace.store.hbase.tail import FORMING
from tailrace_hbase.local_cluster import LocalCluster

pytestmark = pytest.mark.hbase

POINTS = ["tail.scanned", "tail.round", "tail.forming", "tail.logged", "tail.written", "tail.committed"]
CATCH_UP = """
import sys
from tailrace.store.hbase import resolver
from tailrace.store.store_ref import StoreRef
resolver.LARGEST = int(sys.argv[2])
StoreRef.of(sys.argv[1]).attach().catch_up()
"""


def catch_up_and_die(url: str, directory: Path, point: str, visit: int, largest: int = LARGEST) -> None:
    directory.mkdir(exist_ok=True)
    (directory / point).write_text(f"kill@{visit}")
    environment = {**os.environ, "TAILRACE_FAULTS": str(directory)}
    command = [sys.executable, "-c", CATCH_UP, url, str(largest)]
    ended = subprocess.run(command, env=environment, capture_output=True, check=False)
    assert ended.returncode == -signal.SIGKILL, ended.stderr.decode()


def test_a_resolver_is_killed_at_each_step(cluster: LocalCluster, client: Client, tmp_path: Path) -> None:
    rng = random.Random(5)
    with new_store(cluster) as store, foreign_table(client, splits=(ROWS[2],)) as name:
        foreign = ForeignClient(client, name, rng, 1)
        for _ in range(20):
            foreign.write()
        attach(store, name)
        empty, states = store.newest_cut(), []
        for number, point in enumerate(POINTS):
            catch_up_and_die(store.ref.url, tmp_path / f"faults{number}", point, 1)
            if point in ("tail.forming", "tail.logged", "tail.written"):
                assert store.document(FORMING) is not None
            before = store.newest_cut()
            at_death = foreign.rows()
            for _ in range(rng.choice([0, 10])):
                foreign.write()
            store.catch_up()
            cut, expected = store.newest_cut(), foreign.rows()
            assert shown(store, cut) == expected, point
            assert logged(store, empty, cut) == dict.fromkeys(expected, 1), point
            states.append((cut, expected))
            if point == "tail.committed":
                assert shown(store, before) == at_death
            for _ in range(10):
                foreign.write()
        assert [shown(store, cut) for cut, _ in states] == [expected for _, expected in states]


def test_a_transaction_that_was_left_open_is_made_anew_more_than_once(
    cluster: LocalCluster, client: Client, tmp_path: Path
) -> None:
    with new_store(cluster) as store, foreign_table(client) as name:
        foreign = ForeignClient(client, name, random.Random(6), 1)
        attach(store, name)
        store.catch_up()
        empty = store.newest_cut()
        for _ in range(15):
            foreign.write()
        for number, point in enumerate(["tail.written", "tail.logged", "tail.forming", "tail.written"]):
            catch_up_and_die(store.ref.url, tmp_path / f"faults{number}", point, 1)
            foreign.write()
        store.catch_up()
        cut, expected = store.newest_cut(), foreign.rows()
        assert shown(store, cut) == expected
        assert logged(store, empty, cut) == dict.fromkeys(expected, 1)
        assert store.touched(empty, cut)  # every entry has its place: no gap, and none of an earlier attempt


@pytest.mark.parametrize("seed", range(3))
def test_a_transaction_of_limited_size_is_made_anew(
    cluster: LocalCluster, client: Client, tmp_path: Path, seed: int
) -> None:
    """It has the same regions up to the same marks, whatever their names and sizes."""
    rng = random.Random(seed)
    with new_store(cluster) as store, foreign_table(client, splits=tuple(sorted(ROWS)[1:])) as name:
        foreign = ForeignClient(client, name, rng, 1)
        attach(store, name)
        store.catch_up()
        empty = store.newest_cut()
        for number in range(3):
            for _ in range(12):
                foreign.write()
            largest = rng.choice([100, 300, 600])
            catch_up_and_die(store.ref.url, tmp_path / f"faults{number}", "tail.written", 1, largest)
        store.catch_up()
        cut, expected = store.newest_cut(), foreign.rows()
        assert shown(store, cut) == expected
        assert logged(store, empty, cut) == dict.fromkeys(expected, 1)


def test_chunks_that_come_again_change_nothing(cluster: LocalCluster, client: Client, tmp_path: Path) -> None:
    """They are late ones: the resolver has passed them. It is killed at each step in which it resolves them."""
    with new_store(cluster) as store, foreign_table(client) as name:
        foreign = ForeignClient(client, name, random.Random(7), 1)
        attach(store, name)
        store.catch_up()
        empty, wal = store.newest_cut(), store.client.table(f"{store.namespace}:wal", b"w")
        for number, point in enumerate(["tail.forming", "tail.logged", "tail.written", "tail.committed"]):
            for _ in range(15):
                foreign.write()
            with store.resolver.exclusively():
                while not (kept := [found for page in wal.scan(b"", None) for found in page]):
                    time.sleep(0.1)
            store.catch_up()
            for row, cells in kept:
                again = {column: value for column, (value, _) in cells.items()}
                wal.put_many([(row, again)], timestamp=1 + max(timestamp for _, timestamp in cells.values()))
            late, before = [row for row, _ in kept], store.newest_cut()
            assert find_late(wal, store.resolver.tail.marks, 100) == late
            catch_up_and_die(store.ref.url, tmp_path / f"faults{number}", point, 2)  # the first one is for the barriers
            forming = store.document(FORMING)
            assert (forming is not None and forming.late == tuple(late)) == (point != "tail.committed")
            with closing(HbaseStore(store.ref)) as later:
                later.catch_up()
            cut, expected = store.newest_cut(), foreign.rows()
            assert not find_late(wal, store.resolver.tail.marks, 100)
            assert not store.touched(before, cut)
            assert shown(store, cut) == expected, point
            assert logged(store, empty, cut) == dict.fromkeys(expected, 1), point
