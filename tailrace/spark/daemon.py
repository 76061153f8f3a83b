"""Spark's Python daemon with all modules of tasks preloaded (`spark.python.daemon.module`).

Every stage of a task has its own worker process, forked from the daemon. A worker that must import Spark, Arrow and
the rules takes most of a second to start. Forked with them loaded, it takes milliseconds. `gc.freeze` exempts the
preloaded objects from the garbage collection that Spark runs after every task.
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
