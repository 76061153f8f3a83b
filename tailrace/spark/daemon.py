"""Spark's Python daemon with all modules of tasks preloaded (`spark.python.daemon.module`).

Every stage of a task has its own worker process, forked from the daemon. A worker that must import Spark, Arrow and
the rules takes most of a second to start. Forked with them loaded, it takes milliseconds. `gc.freeze` exempts the
preloaded objects from the garbage collection that Spark runs after every task.
"""

from __future__ import annotations

import gc
import importlib
import os

import pyspark.daemon
import pyspark.worker

import tailrace.spark.compile  # noqa: F401
from tailrace.spark.memory import keep_memory
from tailrace.spark.spark_options import PRELOAD
from tailrace.store.store_ref import SCHEMES

if __name__ == "__main__":
    importlib.import_module(f"{SCHEMES[os.environ[PRELOAD]]}.attached")
    keep_memory()
    gc.freeze()
    pyspark.daemon.manager()
