"""A process that resolves is killed at each step. The next one goes on: nothing is lost, nothing comes twice."""

from __future__ import annotations

import os
import random
import signal
import subprocess
import sys
from pathlib import Path

import pytest
from foreign import ROWS, ForeignClient, attach, foreign_table, logged, shown
from hbase_stores import new_store
from thrift_client import Client

from tailrace.store.hbase.tail import FORMING
from tailrace_hbase.local_cluster import LocalCluster

pytestmark = pytest.mark.hbase

POINTS = ["tail.scanned", "tail.round", "tail.forming", "tail.logged", "tail.written", "tail.committed"]
CATCH_UP = """
import sys
from tailrace.store.store_ref import StoreRef
StoreRef.of(sys.argv[1]).attach().catch_up()
"""


def catch_up_and_die(url: str, directory: Path, point: str, visit: int) -> None:
    directory.mkdir(exist_ok=True)
    (directory / point).write_text(f"kill@{visit}")
    environment = {**os.environ, "TAILRACE_FAULTS": str(directory)}
    ended = subprocess.run([sys.executable, "-c", CATCH_UP, url], env=environment, capture_output=True, check=False)
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
