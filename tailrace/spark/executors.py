"""What a Spark cluster needs that a local Spark does not: addresses, executors, and Tailrace in their Python."""

from __future__ import annotations

import os
import re
import time
from collections.abc import Iterator
from contextlib import contextmanager

import pyarrow as pa
from pyspark.sql import SparkSession

from tailrace.errors import EnvironmentFault
from tailrace.version import VERSION

LOOPBACK = "127.0.0.1"
PATIENCE = 120.0  # seconds; the master of a standalone cluster starts executors at once if there are free workers
_REFUSED = (
    "Spark did not start: {master} does not answer, or its executors ended as soon as they had started."
    " Check the address, and the logs of the master and of its workers"
)
_LOCAL = re.compile(r"local(-cluster)?(\[.*\])?")
_LOOPBACK_MASTER = re.compile(r"spark://(127\.[\d.]+|localhost)[:,].*")


def is_cluster(master: str) -> bool:
    return not _LOCAL.fullmatch(master)


def addresses(master: str) -> dict[str, str]:
    """Settings that keep Spark on the loopback interface, unless its executors may be on other machines."""
    if is_cluster(master) and not _LOOPBACK_MASTER.fullmatch(master):
        return {}
    os.environ.setdefault("SPARK_LOCAL_IP", LOOPBACK)
    return {"spark.driver.host": LOOPBACK, "spark.driver.bindAddress": LOOPBACK}


@contextmanager
def not_accepted(master: str) -> Iterator[None]:
    """Explains the error of a Spark that was stopped by its cluster while it started in the block."""
    try:
        yield
    except EnvironmentFault as error:
        if is_cluster(master) and "stopped SparkContext" in str(error):
            raise EnvironmentFault(message=_REFUSED.format(master=master)) from None
        raise


def check_executors(spark: SparkSession, master: str) -> None:
    """Runs a job that proves that an executor of a cluster can run tasks of this version. Nothing in a local Spark.

    Without it, a cluster without free workers makes the first job wait for ever, and an executor without Tailrace
    makes it fail with an error of Python's import.
    """
    if not is_cluster(master):
        return
    if master.startswith("spark://"):
        _await_executor(spark, master)
    found = _version_there(spark, master)
    if found != VERSION:
        raise EnvironmentFault(
            message=f"executors of {master} have Tailrace {found}, and this process has {VERSION}."
            " Install the same version for both (docs/cluster.md)"
        )


def _await_executor(spark: SparkSession, master: str) -> None:
    if spark.sparkContext.getConf().get("spark.dynamicAllocation.enabled") == "true":
        return  # executors start with the first job
    scala, end = spark.sparkContext._jsc.sc(), time.monotonic() + PATIENCE
    while scala.getExecutorMemoryStatus().size() < 2:  # the driver is one
        if scala.isStopped():
            raise EnvironmentFault(message=_REFUSED.format(master=master))
        if time.monotonic() > end:
            spark.stop()
            raise EnvironmentFault(
                message=f"{master} has started no executor within {PATIENCE:.0f} s. Check that it has workers, with"
                " as much free memory as spark.executor.memory (1g by default) and with free cores"
            )
        time.sleep(0.1)


def _version_there(spark: SparkSession, master: str) -> str:
    from tailrace.spark.failures import FAILURES, reason  # here, because it imports `session`

    try:
        [row] = spark.range(0, 1, 1, 1).mapInArrow(_own_version, "version string").collect()
    except FAILURES as error:
        spark.stop()
        raise EnvironmentFault(
            message=f"executors of {master} cannot run Tailrace: {reason(error)}. They run"
            f" {os.environ['PYSPARK_PYTHON']} (PYSPARK_PYTHON), which must be a Python with Tailrace (docs/cluster.md)"
        ) from None
    return str(row.version)


def _own_version(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    for batch in batches:
        yield pa.RecordBatch.from_pydict({"version": [VERSION] * batch.num_rows})
