"""A Spark cluster of two workers for fault tests."""

from __future__ import annotations

import os
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import psutil

from tailrace_cluster.local_spark import EXECUTOR, LocalSpark


@contextmanager
def local_spark(path: Path, faults: Path) -> Iterator[LocalSpark]:
    """Runs the cluster. Its workers have different addresses.

    Spark runs the speculative copy of a slow task only on another host. `local-cluster` has one host.
    """
    env = {"PYTHONPATH": os.pathsep.join(sys.path), "TAILRACE_FAULTS": str(faults)}
    spark = LocalSpark(path, env=env, own_hosts=True)
    try:
        spark.start(workers=2)
        yield spark
    finally:
        spark.stop()


def executor_of(worker: int) -> psutil.Process:
    """The executor process of a Python worker."""
    return next(p for p in psutil.Process(worker).parents() if EXECUTOR in " ".join(p.cmdline()))
