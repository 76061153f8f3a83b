"""TPC-H on HBase: all 22 queries as views, equal to Spark's answers when they are built and after four epochs."""

from __future__ import annotations

from pathlib import Path

import pytest
from pyspark.sql import SparkSession
from test_tpch import Compared, everything, refunds

from tailrace_bench.tpch.data import TABLES, generate, load
from tailrace_hbase.local_cluster import LocalCluster
from tailrace_hbase.scratch import scratch_database

pytestmark = pytest.mark.hbase

SCALE = 0.002


def test_all_queries_stay_right_under_the_refresh_functions(
    cluster: LocalCluster, spark: SparkSession, tmp_path: Path
) -> None:
    files = generate(SCALE, tmp_path / "data")
    with scratch_database(cluster, spark) as db:
        load(db, files)
        tpch = Compared(db, files, tmp_path, SCALE)
        assert tpch.refused == {}
        assert tpch.compare(set(TABLES)) == []
        for change in (lambda: tpch.changes.rf1(50), lambda: tpch.changes.rf2(50), lambda: refunds(tpch.changes)):
            change()
            db.refresh()
        everything(tpch.changes)
        db.refresh()
        assert tpch.compare(set(TABLES) - {"nation", "region"}) == []
        assert len(tpch.moved) > 15, tpch.moved
        assert all(db.verify(name).ok for name in ("q01", "q03", "q21"))
