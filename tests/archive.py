"""Makes Spark's JVM start in half the time: an archive of the classes that it loads, made once and kept.

python archive.py   starts Spark and runs what loads most classes that tests use
"""

from __future__ import annotations

import hashlib
import os
import subprocess
import sys
from pathlib import Path

import pyspark

from tailrace.errors import NoJava
from tailrace.spark.session import find_java, session
from tailrace.spark.spark_options import SparkOptions


def archive(directory: Path) -> Path | None:
    """The archive in a directory, made if it is not there. None if this Java cannot make one."""
    try:
        java = Path(find_java()).resolve() / "bin" / "java"
    except NoJava:
        return None
    what = f"{java} {java.stat().st_mtime_ns} {pyspark.__file__} {pyspark.__version__}"
    made = directory / f"{hashlib.sha256(what.encode()).hexdigest()[:16]}.jsa"
    if made.exists():
        return made
    draft = made.with_suffix(f".{os.getpid()}")
    environment = {**os.environ, "SPARK_SUBMIT_OPTS": f"-XX:ArchiveClassesAtExit={draft} -Xlog:disable"}
    try:
        subprocess.run([sys.executable, __file__], env=environment, capture_output=True, timeout=300)
    except subprocess.TimeoutExpired:
        return None
    if not draft.exists():
        return None
    draft.rename(made)
    return made


def load_classes() -> None:
    spark = session(options=SparkOptions(master="local[2]"))
    spark.createDataFrame([(1, 2)], "a int, b int").createOrReplaceTempView("t")
    spark.sql("SELECT a, count(*), sum(b) FROM t GROUP BY a").toArrow()
    spark.sql("SELECT x.a, rank() OVER (PARTITION BY x.b ORDER BY y.a) FROM t x JOIN t y ON x.a = y.a").toArrow()
    spark.range(0, 4, 1, 4).mapInArrow(lambda batches: batches, "id bigint").groupBy("id").count().collect()
    java = spark.sparkContext._gateway.proc
    java.stdin.close()  # ends the JVM, which then writes the archive
    java.wait()


if __name__ == "__main__":
    load_classes()
