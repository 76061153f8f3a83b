"""The fault bench on HBase, and kinds of faults that only HBase has: its servers die, connections are cut.

All processes reach the Thrift2 server through a proxy.
"""

from __future__ import annotations

import random
import time
from pathlib import Path

import fault_kinds as kinds
from cutting_proxy import CuttingProxy
from fault_bench import Bench
from fault_kinds import Kind
from fault_processes import Rows, Writer, until
from pyspark.sql import SparkSession

import tailrace as tr
from tailrace.database.inside import inside
from tailrace.store.hbase.hbase_store import HbaseStore
from tailrace.store.hbase.tail import ROUND
from tailrace_hbase.local_cluster import LocalCluster
from tailrace_hbase.servers import MASTER, THRIFT, is_region_server
from tailrace_hbase.settings import HOST


class HbaseBench(Bench):
    """One store on HBase under faults."""

    driver_points = (*Bench.driver_points, "tail.forming", "tail.logged", "tail.written", "tail.committed")
    task_points = (*Bench.task_points, "shard.decided", "shard.written")
    pause = 0.5  # a look costs HBase a dozen requests

    def __init__(
        self, path: Path, spark: SparkSession, cluster: LocalCluster, proxy: CuttingProxy, namespace: str
    ) -> None:
        self.cluster, self.proxy, self.namespace = cluster, proxy, namespace
        super().__init__(path, spark, 50_000, "local[2]")

    def open(self, spark: SparkSession) -> tr.Database:
        db = tr.open(f"hbase://{HOST}:{self.proxy.port}/{self.namespace}", create=True, spark=spark)
        self.cluster.admin("peer", "add", self.namespace)
        return db

    def newest_position(self) -> int:
        store = inside(self.db).store
        assert isinstance(store, HbaseStore)
        return (store.resolver.tail.begun + 1) * ROUND

    def restart_writer(self, number: int) -> None:
        until(self.proxy.is_settled, "the server to end the requests of a dead writer")
        super().restart_writer(number)

    def may_remain(self, dead: Writer, stored: Rows) -> bool:
        """Each row is as it was before the last write, or as that write puts it: only rows are atomic."""
        before, after = dead.rows, dead.applied()
        return all(
            stored[name].get(key) in (before[name].get(key), after[name].get(key))
            for name in stored
            for key in stored[name].keys() | before[name].keys() | after[name].keys()
        )

    def check_log(self) -> None:
        """The resolved log has led to the rows that the tables of HBase have."""
        with self.db.snapshot() as snapshot:
            for name in self.db.tables():
                resolved, stored = (source.table(name).scan().to_pylist() for source in (snapshot, self.db))
                assert sorted(resolved, key=str) == sorted(stored, key=str), name


def region_server(bench: HbaseBench, rng: random.Random) -> str:
    """A region server dies under load. It returns at once, or after others have its regions."""
    role = rng.choice([role for role in bench.cluster.running() if is_region_server(role)])
    is_late = rng.random() < 0.5
    _kill_under_load(bench, rng, role)
    if is_late:
        bench.cluster.await_answer()
        bench.write(rng)
    bench.cluster.restart(role)
    bench.write(rng)
    return f"region server {role} killed, returned {'late' if is_late else 'at once'}"


def master(bench: HbaseBench, rng: random.Random) -> str:
    _kill_under_load(bench, rng, MASTER)
    bench.write(rng)
    bench.cluster.restart(MASTER)
    return "master killed"


def thrift(bench: HbaseBench, rng: random.Random) -> str:
    _kill_under_load(bench, rng, THRIFT)
    bench.cluster.restart(THRIFT)
    bench.write(rng)
    return "Thrift server killed"


def connections(bench: HbaseBench, rng: random.Random) -> str:
    bench.write(rng, 10, 30)
    cuts = [_cut(bench, rng) for _ in range(rng.randrange(2, 6))]
    return f"{sum(cuts)} connections cut, in {len(cuts)} steps"


def _cut(bench: HbaseBench, rng: random.Random) -> int:
    time.sleep(rng.uniform(0.0, 1.0))
    return bench.proxy.cut()


def _kill_under_load(bench: HbaseBench, rng: random.Random, role: str) -> None:
    bench.write(rng, 10, 30)
    time.sleep(rng.uniform(0.0, 1.0))
    bench.cluster.kill(role)
    bench.moment = time.monotonic()


SERVERS = [Kind(region_server, 3), Kind(thrift, 2), Kind(connections, 2), Kind(master, 1)]  # type: ignore[arg-type]
PROCESSES = [
    Kind(kinds.driver_at_a_point, 3),
    Kind(kinds.driver_at_any_time, 2),
    Kind(kinds.worker, 3),
    Kind(kinds.task, 1),
    Kind(kinds.worker_that_stays_behind, 1),
    Kind(kinds.jvm, 2),
    Kind(kinds.writer_at_a_point, 2),
    Kind(kinds.writer_at_any_time, 2),
    Kind(kinds.build, 2),
    Kind(kinds.second_runner, 1),
    Kind(kinds.poison, 2),
]


def drawn(seed: int, runs: int) -> list[tuple[int, Kind]]:
    """Numbered faults: first each kind once, those of servers before the others, then by weight."""
    rng = random.Random(seed)
    every = SERVERS + PROCESSES
    drawn = rng.sample(SERVERS, len(SERVERS)) + rng.sample(PROCESSES, len(PROCESSES))
    return list(enumerate((drawn + rng.choices(every, [kind.weight for kind in every], k=runs))[:runs]))
