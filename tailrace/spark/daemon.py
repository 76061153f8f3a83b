"""Spark's Python daemon with all that tasks need imported already: `spark.python.daemon.module`.

Every stage of a task has a worker process of its own, forked from the daemon. One that must first import Spark,
Arrow and the rules takes most of a second to start; forked with them, it takes milliseconds. What was there
before the fork is also kept from the garbage collection that Spark orders after every task.
"""

from __future__ import annotations

import gc

import pyspark.daemon
import pyspark.worker

import tailrace.spark.compile
import tailrace.store.lmdb.attached  # noqa: F401
from tailrace.spark.memory import keep_memory

if __name__ == "__main__":
    keep_memory()
    gc.freeze()
    pyspark.daemon.manager()
