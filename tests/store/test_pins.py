"""A pin keeps its epoch until its block ends, its process dies, or its lease expires."""

from __future__ import annotations

import os
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from tailrace.store import leases
from tailrace.store.base import Cut, Write
from tailrace.store.commits import COMMITTED, Committed
from tailrace.store.lmdb import settings
from tailrace.store.lmdb.store import LmdbStore
from tailrace.store.pins import PINS, Pin, PinDocument, find_oldest_pin, list_pins, pinned
from tailrace.store.processes import is_process_alive, this_process

HOLDER = """
import sys
from pathlib import Path
from tailrace.store.lmdb.store import LmdbStore
from tailrace.store.pins import pinned
with pinned(LmdbStore(Path(sys.argv[1]))):
    print("pinned", flush=True)
    sys.stdin.read()
"""


@pytest.fixture
def store(tmp_path: Path) -> Iterator[LmdbStore]:
    settings.create(tmp_path / "s", settings.Settings(map_size=1 << 26))
    opened = LmdbStore(tmp_path / "s")
    yield opened
    opened.close()


def commit(store: LmdbStore, epoch: int) -> None:
    store.change_documents({COMMITTED.name: Committed(epoch, Cut(epoch, (epoch,) * store.nodes), 0.0)})


def test_the_oldest_pin_counts(store: LmdbStore) -> None:
    assert find_oldest_pin(store) is None
    with pinned(store) as first:
        commit(store, 5)
        with pinned(store) as second:
            assert (first.epoch, second.epoch) == (0, 5)
            assert find_oldest_pin(store) == first
            assert [pin["epoch"] for pin in list_pins(store)] == [0, 5]
        assert find_oldest_pin(store) == first
    assert find_oldest_pin(store) is None
    assert list_pins(store) == []


def test_a_pin_of_another_process_lasts_until_that_process_is_killed(store: LmdbStore) -> None:
    commit(store, 3)
    command = [sys.executable, "-c", HOLDER, store.path]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as other:
        assert other.stdout is not None
        assert other.stdout.readline() == "pinned\n"
        commit(store, 4)
        pin = find_oldest_pin(store)
        assert pin is not None
        assert (pin.epoch, list_pins(store)[0]["pid"]) == (3, other.pid)
        other.kill()
        os.waitid(os.P_PID, other.pid, os.WEXITED | os.WNOWAIT)  # dead, but still in the process table (a zombie)
        assert find_oldest_pin(store) is None
    assert store.documents(PINS) == {}


READER = """
import sys
from pathlib import Path
from tailrace.store.lmdb.store import LmdbStore
store = LmdbStore(Path(sys.argv[1]))
with store.shard(0).at(0) as snapshot, store.environment.read():
    snapshot.applied(1)
    print("reading", flush=True)
    sys.stdin.read()
"""


def test_a_killed_reader_does_not_keep_lmdb_pages(store: LmdbStore) -> None:
    environments = [store.environment, store.shard(0).environment]

    def reading(pid: int) -> list[bool]:
        return [str(pid) in environment.handle.readers() for environment in environments]

    command = [sys.executable, "-c", READER, store.path]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as other:
        assert other.stdout is not None
        assert other.stdout.readline() == "reading\n"
        assert reading(other.pid) == [True, True]
        other.kill()
    assert reading(other.pid) == [True, True]
    store.shard(0).apply(1, [Write.of(1, [b"k"], [b"v"], [None])], keep=0)
    store.trim(store.newest_cut())
    assert reading(other.pid) == [False, False]


def test_a_reused_process_id_is_another_process(store: LmdbStore) -> None:
    process = this_process()
    assert is_process_alive(**process)
    assert not is_process_alive(**{**process, "started": process["started"] - 1})
    assert is_process_alive(**{**process, "host": "elsewhere", "pid": 0})


def pin_of(host: str, expires: float | None) -> PinDocument:
    return PinDocument(epoch=3, cut=Cut(3, (1, 2)), at=0.0, pid=1, host=host, expires=expires)


def test_a_lease_of_another_host_counts_until_it_expires(store: LmdbStore) -> None:
    store.change_documents({PINS.at("a"): pin_of("elsewhere", time.time() + 30)})
    assert find_oldest_pin(store) == Pin(3, Cut(3, (1, 2)))
    store.change_documents({PINS.at("a"): pin_of("elsewhere", time.time() - 1)})
    assert find_oldest_pin(store) is None
    assert store.documents(PINS) == {}, "an expired pin is removed"


def test_a_lease_is_renewed_while_it_is_held(store: LmdbStore, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(leases, "RENEWAL", 0.01)
    with pinned(store):
        (first,) = store.documents(PINS).values()
        deadline = time.monotonic() + 30
        while next(iter(store.documents(PINS).values())).expires == first.expires:
            assert time.monotonic() < deadline, "the lease was not renewed"
            time.sleep(0.01)
    assert store.documents(PINS) == {}


def test_a_removed_lease_stays_removed(store: LmdbStore) -> None:
    with pinned(store):
        (key,) = store.documents(PINS)
        store.change_documents({PINS.at(key): None})
        leases.renew(store, PINS, key)
        assert store.documents(PINS) == {}
