"""Views over HBase, maintained on a Spark cluster whose executors and workers die and join."""

from __future__ import annotations

import random
import threading
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path

import pytest
from fault_cluster import executor_of, local_spark
from fault_processes import PATIENCE, Child, until
from pyspark.sql import SparkSession

import tailrace as tr
from tailrace.verify.history.verdict import Level
from tailrace_cluster.local_spark import LocalSpark
from tailrace_hbase.local_cluster import LocalCluster
from tailrace_hbase.scratch import scratch_database

pytestmark = pytest.mark.hbase

VIEWS = {
    "totals": "SELECT g, SUM(v) AS s, COUNT(*) AS n, MAX(v) AS hi FROM a GROUP BY g",
    "pairs": "SELECT a.id, b.id AS bid, a.v + b.v AS v FROM a JOIN b ON a.g = b.g",
    "middles": "SELECT g, percentile(v, 0.5) AS m FROM b GROUP BY g",  # by Spark's own operators
}
SHUFFLED = -1  # no epoch fits one task


class Bench:
    """A store on HBase, a thread that writes, the rows as they should be, and a process that runs epochs on Spark."""

    def __init__(self, db: tr.Database, path: Path, workers: LocalSpark, settings: Mapping[str, object]) -> None:
        self.db, self.faults = db, path / "faults"
        self.rows: dict[str, dict[int, tuple[int, int]]] = {"a": {}, "b": {}}
        conf = " ".join(f"{name}={value}" for name, value in settings.items())
        self.runner = Child(
            path / "runner.log",
            self.faults,
            "fault_runner.py",
            db.path,
            SHUFFLED,
            100_000,
            workers.url,
            TAILRACE_SPARK_CONF=conf,
        )

    def write(self, rng: random.Random) -> tr.Written:
        name = rng.choice("ab")
        table, rows, ids = self.db.table(name), self.rows[name], rng.sample(range(40), rng.randrange(1, 8))
        if rng.random() < 0.3:
            for number in ids:
                rows.pop(number, None)
            return table.delete_many(ids)
        rows.update({number: (rng.randrange(5), rng.randrange(1000)) for number in ids})
        return table.put_many([{"id": n, "g": rows[n][0], "v": rows[n][1]} for n in ids])

    @contextmanager
    def writing(self) -> Iterator[None]:
        """Writes in a thread during the block."""
        stop, problems = threading.Event(), []

        def loop() -> None:
            rng = random.Random(1)
            try:
                while not stop.wait(0.05):
                    self.write(rng)
            except BaseException as problem:
                problems.append(problem)

        thread = threading.Thread(target=loop)
        thread.start()
        try:
            yield
        finally:
            stop.set()
            thread.join()
        assert not problems, problems

    def go_on(self) -> None:
        """Waits until two more epochs are committed."""
        self.runner.wait_for("epoch", self.runner.count("epoch") + 2)

    def kill_executor_in(self, point: str) -> None:
        """SIGKILL of the executor whose task reaches a fault point next."""
        file = self.faults / point
        file.write_text("sleep:3@1")
        until(lambda: file.read_text().startswith("met"), f"a task in {point}", lambda: self.runner.said[-3:])
        executor_of(int(file.read_text().split()[1])).kill()

    def check(self) -> None:
        """All writes are in the views, once, and no view has failed."""
        written = self.write(random.Random(2))
        for name in VIEWS:
            self.db.view(name).scan(limit=1, at_least=written, timeout=PATIENCE)
        for name, rows in self.rows.items():
            assert {r["id"]: (r["g"], r["v"]) for r in self.db.table(name).scan().to_pylist()} == rows
        assert [view["name"] for view in self.db.status().views if view["failed"]] == []
        assert not self.runner.count("failed"), self.runner.last("failed")
        assert self.runner.alive
        for name in VIEWS:
            report = self.db.verify(name)
            assert report.ok, report


@contextmanager
def running(
    cluster: LocalCluster, spark: SparkSession, workers: LocalSpark, path: Path, **settings: object
) -> Iterator[Bench]:
    """A bench whose epochs run on the workers. Its last state is checked."""
    with scratch_database(cluster, spark, shards=4) as db:
        for table in "ab":
            db.sql(f"CREATE TABLE {table} (id INT PRIMARY KEY, g INT, v INT)")
        for view, sql in VIEWS.items():
            db.sql(f"CREATE MATERIALIZED VIEW {view} AS {sql}")
        bench = Bench(db, path, workers, {"spark.executor.memory": "512m", **settings})
        try:
            bench.runner.wait_for("ready")
            with bench.writing():
                bench.go_on()
                yield bench
            bench.check()
        finally:
            bench.runner.end()


@pytest.fixture
def workers(tmp_path: Path) -> Iterator[LocalSpark]:
    (tmp_path / "faults").mkdir()
    with local_spark(tmp_path / "spark", tmp_path / "faults") as started:
        yield started


def test_executors_and_workers_die_and_join(
    cluster: LocalCluster, spark: SparkSession, workers: LocalSpark, tmp_path: Path
) -> None:
    history = tmp_path / "history.arrow"
    with running(cluster, spark, workers, tmp_path) as bench, bench.db.record(history):
        bench.kill_executor_in("shard.decided")
        bench.go_on()
        workers.remove_worker("w1")
        bench.go_on()
        added = workers.add_worker()
        until(lambda: workers.executors(added), f"an executor of {added}")
        workers.remove_worker("w2")  # the new one is the only one now
        bench.go_on()
    checked = tr.check(history, spark=spark)
    assert checked.ok, checked.verdict
    assert checked.verdict.level >= Level.STRONG


@pytest.mark.soak
@pytest.mark.parametrize("point", ["task.apply", "shard.written"])
def test_no_view_is_to_blame_for_a_lost_executor(
    cluster: LocalCluster, spark: SparkSession, workers: LocalSpark, tmp_path: Path, point: str
) -> None:
    """Without Spark's own retries, a lost executor fails the job."""
    with running(cluster, spark, workers, tmp_path, **{"spark.task.maxFailures": 1}) as bench:
        bench.kill_executor_in(point)
        bench.go_on()
