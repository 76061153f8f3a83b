from __future__ import annotations

import os
from collections.abc import Iterator

import pytest
from pyspark.sql import SparkSession

from tailrace.source.session import session


@pytest.fixture(scope="session")
def spark() -> Iterator[SparkSession]:
    """One real Spark for the whole run, with the settings Tailrace runs with."""
    # Short runs: compile quickly, not well. The cache that goes with this is soon full, and then nothing is compiled.
    os.environ["JAVA_TOOL_OPTIONS"] = "-XX:TieredStopAtLevel=1 -XX:ReservedCodeCacheSize=512m"
    started = session(cores=2)
    yield started
    started.stop()
