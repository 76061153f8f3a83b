"""A pin keeps its epoch until its block ends or its process dies."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from tailrace.store.base import Write
from tailrace.store.lmdb import settings
from tailrace.store.lmdb.store import LmdbStore
from tailrace.store.pins import oldest_pinned, pinned, standing
from tailrace.store.processes import lives, me

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
    store.change_documents({"committed": {"epoch": epoch, "cut": [epoch, [epoch] * store.nodes], "at": 0.0}})


def test_the_oldest_pin_counts(store: LmdbStore) -> None:
    assert oldest_pinned(store) is None
    with pinned(store) as first:
        commit(store, 5)
        with pinned(store) as second:
            assert (first.epoch, second.epoch) == (0, 5)
            assert oldest_pinned(store) == first
            assert [note["epoch"] for note in standing(store)] == [0, 5]
        assert oldest_pinned(store) == first
    assert oldest_pinned(store) is None
    assert standing(store) == []


def test_a_pin_of_another_process_lasts_until_that_process_is_killed(store: LmdbStore) -> None:
    commit(store, 3)
    command = [sys.executable, "-c", HOLDER, store.path]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as other:
        assert other.stdout is not None
        assert other.stdout.readline() == "pinned\n"
        commit(store, 4)
        pin = oldest_pinned(store)
        assert pin is not None
        assert (pin.epoch, standing(store)[0]["pid"]) == (3, other.pid)
        other.kill()
        os.waitid(os.P_PID, other.pid, os.WEXITED | os.WNOWAIT)  # dead, but still in the process table (a zombie)
        assert oldest_pinned(store) is None
    assert store.documents("pin:") == {}


READER = """
import sys
from pathlib import Path
from tailrace.store.lmdb.store import LmdbStore
store = LmdbStore(Path(sys.argv[1]))
with store.shard(0).at(0) as snapshot, store._base.read():
    snapshot.applied(1)
    print("reading", flush=True)
    sys.stdin.read()
"""


def test_a_killed_reader_does_not_keep_lmdb_pages(store: LmdbStore) -> None:
    environments = [store._base, store.shard(0)._env]

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
    note = me()
    assert lives(note)
    assert not lives({**note, "started": note["started"] - 1})
    assert lives({**note, "host": "elsewhere", "pid": 0})
