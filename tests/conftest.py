from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from typing import Any

import pytest
from archive import archive
from pyspark.sql import SparkSession

from tailrace.spark.session import session
from tailrace.spark.spark_options import SparkOptions
from tailrace_hbase.local_cluster import LocalCluster

# Test runs are short: use only the fast compiler. Its default code cache fills up, and then nothing is compiled.
# Set here, so that the processes of all tests have it, also before the first test that has Spark itself.
os.environ["JAVA_TOOL_OPTIONS"] = "-XX:TieredStopAtLevel=1 -XX:ReservedCodeCacheSize=512m"


def pytest_configure(config: pytest.Config) -> None:
    """Lets every JVM take its classes from an archive. Workers of xdist have it from the process that starts them."""
    cache = getattr(config, "cache", None)
    if hasattr(config, "workerinput") or cache is None or config.option.collectonly:
        return
    if (classes := archive(cache.mkdir("jvm"))) is not None:
        os.environ["SPARK_SUBMIT_OPTS"] = f"-XX:SharedArchiveFile={classes} -Xlog:disable"


# Tests that take longest, longest first. They start first, so that no worker is left with one at the end.
LONGEST = (
    "test_faults_at_random",
    "test_the_bank_on_a_cluster_that_changes",
    "test_fuzz_equals_recompute",
    "test_hbase_tpch.py",
    "test_spark_cluster.py",
    "test_oracle_windows.py",
    "test_oracle_corners.py",
    "test_lookups.py",
    "test_oracle_subqueries.py",
    "test_oracle_operators.py",
    "test_bench_peers.py",
    "test_sql_docs.py",
    "test_fault_cluster.py",
    "tests/verify/test_audit.py",
)


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    def rank(item: pytest.Item) -> int:
        return next((place for place, name in enumerate(LONGEST) if name in item.nodeid), len(LONGEST))

    items.sort(key=rank)  # stable: all others keep their order


@pytest.fixture(scope="session")
def spark() -> Iterator[SparkSession]:
    """One real Spark session for the whole test run, with Tailrace's own settings."""
    started = session(options=SparkOptions(master="local[2]"))
    yield started
    started.stop()


@pytest.fixture(scope="session")
def cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[LocalCluster]:
    """One cluster for the run. With TAILRACE_HBASE=.hbase it is the one in that directory, and stays."""
    if kept := os.environ.get("TAILRACE_HBASE"):
        found = LocalCluster(kept)
        found.start()
        yield found
        return
    started = LocalCluster(tmp_path_factory.mktemp("hbase"))
    try:
        started.start(servers=3)
        started.admin("balancer", "off")
        yield started
    finally:
        started.stop(orderly=False)  # nobody needs its data


@pytest.fixture
def told(request: pytest.FixtureRequest, record_property: Callable[[str, object], None]) -> Callable[[str], None]:
    """Records a figure of the test; all figures are printed after the run."""
    return lambda figure: record_property("figure", f"{request.node.name}: {figure}")


def pytest_terminal_summary(terminalreporter: Any) -> None:
    reports = [r for kind in ("passed", "failed") for r in terminalreporter.stats.get(kind, []) if r.when == "call"]
    figures = [value for report in reports for name, value in report.user_properties if name == "figure"]
    if figures:
        terminalreporter.section("figures")
        for figure in figures:
            terminalreporter.write_line(figure)
