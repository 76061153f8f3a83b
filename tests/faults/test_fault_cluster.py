"""Killed executors and speculative copies of slow tasks, on a cluster of two workers."""

from __future__ import annotations

import random
import time
from collections.abc import Iterator

import pytest
from fault_bench import Bench, recovered
from fault_cluster import executor_of, local_spark
from pyspark.sql import SparkSession

SPECULATION = {
    "spark.speculation": "true",
    "spark.speculation.interval": "100ms",
    "spark.speculation.quantile": "0.1",
    "spark.speculation.multiplier": "1.5",
    "spark.speculation.task.duration.threshold": "2s",
}


@pytest.fixture(scope="module")
def bench(tmp_path_factory: pytest.TempPathFactory, spark: SparkSession) -> Iterator[Bench]:
    path = tmp_path_factory.mktemp("cluster")
    settings = " ".join(f"--conf {name}={value}" for name, value in SPECULATION.items())
    with (
        local_spark(path / "spark", path / "faults") as cluster,
        Bench(path, spark, -1, cluster.url, PYSPARK_SUBMIT_ARGS=f"{settings} pyspark-shell") as made,
    ):
        made.runner.wait_for("ready")
        made.write(random.Random(0))
        made.settle()
        yield made


@pytest.mark.parametrize("point", ["task.apply", "shard.committed"])
def test_a_killed_executor(bench: Bench, point: str) -> None:
    bench.arm(point, "sleep:2")
    bench.write(random.Random(point))
    executor_of(bench.wait_until_met(point)).kill()
    recovered(bench, f"executor killed at {point}")
    assert not bench.runner.count("failed"), bench.runner.last(
        "failed"
    )  # because Spark retried the task on another executor


def test_a_slow_task_is_overtaken_by_its_copy(bench: Bench) -> None:
    bench.arm("task.apply", "sleep:300")
    bench.write(random.Random(1))
    bench.wait_until_met("task.apply")
    recovered(bench, "copy of a task that hangs")
    assert time.monotonic() - bench.moment < 300


def test_a_slow_task_comes_after_its_copy(bench: Bench) -> None:
    for number in range(2):
        bench.arm("task.apply", "sleep:4")
        bench.write(random.Random(number))
        bench.wait_until_met("task.apply")
        recovered(bench, "copy of a slow task")
    bench.verify()
