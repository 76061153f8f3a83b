"""Writers are throttled only while views are far behind and a process runs epochs."""

from __future__ import annotations

import threading
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

import tailrace as tr
from tailrace.database.admission import LONGEST, MAX_LAG, Lag, admit
from tailrace.database.inside import inside
from tailrace.errors import DataError
from tailrace.store.lmdb.file_locks import held


@pytest.fixture
def db(tmp_path: Path, spark: Any) -> Iterator[tr.Database]:
    with tr.open(tmp_path / "s", create=True, spark=spark, max_lag=10, map_size=1 << 28) as database:
        database.sql("CREATE TABLE a (id INT PRIMARY KEY, v INT)")
        yield database


def put(db: tr.Database, rows: int) -> float:
    began = time.monotonic()
    db.table("a").put_many([{"id": i, "v": i} for i in range(rows)])
    return time.monotonic() - began


@pytest.mark.parametrize(
    ("lag", "delay"), [(0, 0.0), (10, 0.0), (11, 0.1), (15, 0.5), (20, 1.0), (60, LONGEST), (10_000, LONGEST)]
)
def test_the_delay_grows_with_the_excess(lag: int, delay: float) -> None:
    assert Lag(lag, 10).delay == delay


def test_max_lag_is_stored_and_seen_by_all_handles(tmp_path: Path, db: tr.Database) -> None:
    with tr.open(tmp_path / "s") as other:
        assert other.status().max_lag == 10
        with tr.open(tmp_path / "s", max_lag=500):
            assert (other.status().max_lag, db.status().max_lag) == (500, 500)
    with tr.open(tmp_path / "other", create=True, map_size=1 << 26) as fresh:
        assert fresh.status().max_lag == MAX_LAG
    with pytest.raises(DataError):
        tr.open(tmp_path / "s", max_lag=0)


def test_no_write_waits_if_no_process_runs_epochs(db: tr.Database) -> None:
    put(db, 60)
    status = db.status()
    assert (status.lag_operations, status.delay, status.runner) == (60, 0.0, None)
    before = time.monotonic()
    for _ in range(20):
        admit(inside(db).store)
    assert time.monotonic() - before < LONGEST


def test_writes_wait_a_bounded_time_while_a_process_runs_epochs(db: tr.Database) -> None:
    with held(db.path, "runner"):
        put(db, 10)
        assert db.status().delay == 0.0
        db.table("a").put_many([{"id": i} for i in range(3)])
        delay = db.status().delay
        assert delay == pytest.approx(0.3)
        assert put(db, 1) >= delay
        before = time.monotonic()
        with db.transaction() as t:
            t.table("a").put({"id": 1})
        assert time.monotonic() - before >= delay
        assert db.table("a").get(0) is not None
    assert db.status().delay == 0.0


def test_a_waiting_write_continues_when_the_lag_or_the_runner_is_gone(db: tr.Database) -> None:
    put(db, 1_000)
    done = threading.Event()

    def write() -> None:
        put(db, 1)
        done.set()

    thread = threading.Thread(target=write)
    with held(db.path, "runner"):
        thread.start()
        assert not done.wait(0.3)
        inside(db).refresh()
        thread.join()
    assert done.is_set()
    done.clear()
    put(db, 1_000)
    thread = threading.Thread(target=write)
    with held(db.path, "runner"):
        thread.start()
        assert not done.wait(0.3)
    thread.join()
    assert done.is_set()
