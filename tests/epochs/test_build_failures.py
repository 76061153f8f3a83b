"""Failing builds: transient failures are retried, permanent ones discard the build; other views continue either way."""

from __future__ import annotations

import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from pathlib import Path
from typing import Any

import psutil
import pyarrow as pa
import pytest
from pyspark.sql import SparkSession

import tailrace as tr
from tailrace.catalog import construction
from tailrace.database.inside import inside
from tailrace.database.progress import Step
from tailrace.errors import BuildFailed, Corrupt, StoreFull, TailraceError
from tailrace.sent_errors import send_errors
from tailrace.spark.failures import FAILURES, epoch_failed, is_hopeless, is_outside

PAIRS = "CREATE MATERIALIZED VIEW pairs AS SELECT l.id, r.id AS other FROM a l JOIN a r ON l.g = r.g"


def fill(db: tr.Database) -> None:
    db.sql("CREATE TABLE a (id INT PRIMARY KEY, g INT)")
    db.table("a").put_many([{"id": i, "g": i % 5} for i in range(100)])
    db.sql("CREATE MATERIALIZED VIEW small AS SELECT g, COUNT(*) AS n FROM a GROUP BY g")


@pytest.fixture
def db(tmp_path: Path, spark: SparkSession) -> Iterator[tr.Database]:
    with tr.open(tmp_path / "s", create=True, spark=spark, map_size=1 << 30) as database:
        fill(database)
        inside(database).builder.chunk = 30
        yield database


def until(condition: Callable[[], Any], what: str) -> Any:
    end = time.monotonic() + 60
    while not (value := condition()):
        assert time.monotonic() < end, f"waited for {what}"
        time.sleep(0.02)
    return value


class AtChunk:
    """Progress callback that runs `act` during the second chunk's job, and blocks that job by writing to a shard."""

    def __init__(self, db: tr.Database, act: Callable[[], None]) -> None:
        self._db, self._act, self._stuck = db, act, False
        self.done: Future[None] | None = None

    def __call__(self, step: Step) -> None:
        if step.rows is not None and self.done is None:
            self.done = ThreadPoolExecutor(1).submit(self._work)
            until(lambda: self._stuck, "the shard")

    def _work(self) -> None:
        with inside(self._db).store.shard(0).environment.write():
            self._stuck = True
            self._act()


def kill_workers(db: tr.Database, times: int) -> None:
    """Kill the Python workers of the next `times` jobs, each until the job has failed."""
    seen: set[int] = set()

    def active() -> set[int]:
        return set(db.spark.sparkContext.statusTracker().getActiveJobsIds())

    def failed(job: set[int]) -> bool:
        for process in psutil.Process().children(recursive=True):
            if process.is_running() and all(_is_daemon(p) for p in (process, process.parent())):
                process.kill()
        return not job & active()

    for _ in range(times):
        job = until(lambda seen=frozenset(seen): active() - seen, "a job")
        seen |= job
        until(lambda job=job: failed(job), "the job to fail")


def _is_daemon(process: psutil.Process | None) -> bool:
    try:
        return process is not None and "tailrace.spark.daemon" in process.cmdline()
    except psutil.Error:
        return False


def test_a_build_is_retried_after_lost_workers(db: tr.Database) -> None:
    at = AtChunk(db, lambda: kill_workers(db, construction.TRIES - 1))
    db.sql(PAIRS, progress=at)
    assert at.done is not None
    at.done.result()
    assert db.status().building == []
    assert db.verify("pairs").ok


def test_a_build_that_fails_three_times_in_a_row_is_discarded(db: tr.Database) -> None:
    at = AtChunk(db, lambda: kill_workers(db, construction.TRIES))
    with pytest.raises(BuildFailed) as error:
        db.sql(PAIRS, progress=at)
    assert at.done is not None
    at.done.result()
    assert "Python worker exited unexpectedly" in error.value.reason
    assert "3 failures in a row" in error.value.reason
    db.table("a").put({"id": 1000, "g": 0})
    db.refresh()
    assert db.view("small").get(0) == {"g": 0, "n": 21}
    db.sql(PAIRS)
    assert db.verify("pairs").ok


def test_a_build_that_reaches_map_size_is_discarded_at_once(tmp_path: Path, spark: SparkSession) -> None:
    with tr.open(tmp_path / "s", create=True, spark=spark, map_size=1 << 20) as db:
        fill(db)
        inside(db).builder.chunk = 60
        text = "CREATE MATERIALIZED VIEW large AS SELECT l.id, r.id AS other, repeat('x', 400) AS x FROM a l, a r"
        with pytest.raises(BuildFailed) as error:
            db.sql(text)
        assert "map_size" in error.value.reason
        assert "in a row" not in error.value.reason
        db.table("a").put({"id": 1000, "g": 0})
        db.refresh()
        assert db.view("small").get(0) == {"g": 0, "n": 21}


JVM_KILLER = """
import sys, threading, time
import tailrace as tr
from tailrace.database.inside import inside
from tailrace.errors import EpochFailed

db = tr.open(sys.argv[1])
inside(db).builder.chunk = 30
context = db.spark.sparkContext
stuck = threading.Event()

def kill_jvm():
    with inside(db).store.shard(0).environment.write():
        stuck.set()
        while not context.statusTracker().getActiveJobsIds():
            time.sleep(0.02)
        context._gateway.proc.kill()
        context._gateway.proc.wait()

def on_step(step):
    if step.rows is not None and not stuck.is_set():
        threading.Thread(target=kill_jvm).start()
        stuck.wait()

for _ in range(5):
    try:
        db.sql(sys.argv[2], progress=on_step)
    except EpochFailed as error:
        print(error.reason, flush=True)
"""


def test_a_lost_jvm_leaves_the_build_to_the_next_process(db: tr.Database) -> None:
    command = [sys.executable, "-c", JVM_KILLER, db.path, PAIRS]
    lines = subprocess.run(command, stdout=subprocess.PIPE, text=True, timeout=120, check=True).stdout.splitlines()
    assert len(lines) == 5
    assert all("Spark has stopped" in line for line in lines)
    (building,) = db.status().building
    assert (building["failed"], building["pid"], building["rows"]) == (None, None, 30)
    assert len(building["failures"]) == 1, "failures after Spark has stopped do not count"
    db.table("a").put({"id": 1000, "g": 0})
    db.refresh()
    assert db.status().building == []
    assert db.verify("pairs").ok


def failing(error: Exception) -> Callable[[Iterator[pa.RecordBatch]], Iterator[pa.RecordBatch]]:
    def work() -> Iterator[pa.RecordBatch]:
        raise error
        yield

    return lambda batches: send_errors(work)


def full(what: str) -> StoreFull:
    return StoreFull(path="/store", full=what, reason="it is full", advice="Do something.")


@pytest.mark.parametrize(
    ("error", "expected"),
    [
        (full("disk"), "outside"),
        (full("map"), "hopeless"),
        (Corrupt(where="state 7", reason="two rows under one key"), "hopeless"),
        (OSError(28, "No space left on device"), "passing"),
        (MemoryError(), "passing"),
    ],
    ids=["disk", "map", "corrupt", "system", "memory"],
)
def test_failures_are_classified(spark: SparkSession, error: Exception, expected: str) -> None:
    with pytest.raises(FAILURES) as raised:
        spark.range(1).mapInArrow(failing(error), "id BIGINT").collect()
    failed = epoch_failed(1, raised.value)
    kind = "outside" if is_outside(failed) else "hopeless" if is_hopeless(failed) else "passing"
    assert kind == expected
    if isinstance(error, TailraceError):
        assert (type(failed.cause), failed.cause.data, failed.reason) == (type(error), error.data, str(error))
