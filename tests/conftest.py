from __future__ import annotations

from collections.abc import Iterator

import pytest
from pyspark.sql import SparkSession

from tailrace.source.session import session


@pytest.fixture(scope="session")
def spark() -> Iterator[SparkSession]:
    """One real Spark for the whole run, with the settings Tailrace runs with."""
    started = session(cores=2)
    yield started
    started.stop()
