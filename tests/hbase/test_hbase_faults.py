"""Random faults of all kinds over a store on HBase: any process dies, of Tailrace, of Spark or of HBase.

No acknowledged write is lost, none is applied twice, every view is right, and what views showed throughout was strongly
consistent. `make test-hbase` runs 4 faults, `make soak` 30. FAULTS_SEED and FAULTS_ONLY repeat one, as in
`tests/faults/test_faults.py`.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from cutting_proxy import cutting_proxy
from hbase_faults import HbaseBench, drawn
from pyspark.sql import SparkSession
from test_faults import SEED, chosen, run

from tailrace_hbase.local_cluster import LocalCluster
from tailrace_hbase.scratch import scratch_namespace

pytestmark = pytest.mark.hbase

Make = Callable[[], HbaseBench]


@pytest.fixture
def make(cluster: LocalCluster, spark: SparkSession, tmp_path: Path) -> Iterator[Make]:
    """Makes a bench over a new store. Afterwards all servers run again, whatever happened."""
    with scratch_namespace(cluster) as name, cutting_proxy(cluster.port) as proxy:

        def new_bench() -> HbaseBench:
            return HbaseBench(tmp_path, spark, cluster, proxy, name)

        yield new_bench
        cluster.start()


def test_faults_at_random(make: Make, told: Callable[[str], None]) -> None:
    run(make, told, chosen(drawn(SEED, 4)), SEED)


@pytest.mark.soak
def test_many_faults(make: Make, told: Callable[[str], None]) -> None:
    run(make, told, chosen(drawn(SEED + 1, 30)), SEED + 1)
