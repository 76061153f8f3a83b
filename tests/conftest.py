from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from typing import Any

import pytest
from archive import archive
from pyspark.sql import SparkSession

from tailrace.spark.session import session

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


@pytest.fixture(scope="session")
def spark() -> Iterator[SparkSession]:
    """One real Spark session for the whole test run, with Tailrace's own settings."""
    started = session(cores=2)
    yield started
    started.stop()


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
