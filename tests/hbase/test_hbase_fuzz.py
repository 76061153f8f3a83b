"""Random queries over random schemas on HBase equal Spark's answer after every epoch."""

from __future__ import annotations

import pytest
from pyspark.sql import SparkSession
from test_fuzz import require_equal

from tailrace_fuzz.features import Features
from tailrace_fuzz.places import on_hbase
from tailrace_fuzz.run import play
from tailrace_fuzz.scenarios import scenario
from tailrace_hbase.local_cluster import LocalCluster

pytestmark = pytest.mark.hbase

SEED, QUERIES = "hbase", 6


def test_fuzz_equals_recompute(cluster: LocalCluster, spark: SparkSession) -> None:
    require_equal(play(spark, scenario(SEED, 0, Features.of(), QUERIES), on_hbase(cluster)), SEED)
