"""Where the fuzzer's databases are: each embedded one in a directory of its own, each one on HBase in a namespace."""

from __future__ import annotations

import tempfile
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager
from pathlib import Path

from pyspark.sql import SparkSession

import tailrace as tr
from tailrace_hbase.local_cluster import LocalCluster
from tailrace_hbase.scratch import scratch_database

Place = Callable[[SparkSession], AbstractContextManager[tr.Database]]
"""Makes an empty database that ends with the block."""


@contextmanager
def embedded(spark: SparkSession) -> Iterator[tr.Database]:
    with (
        tempfile.TemporaryDirectory(prefix="tailrace-fuzz-") as directory,
        tr.open(Path(directory) / "store", create=True, spark=spark, map_size=1 << 28, durable=False) as db,
    ):
        yield db


def on_hbase(cluster: LocalCluster) -> Place:
    return lambda spark: scratch_database(cluster, spark)
