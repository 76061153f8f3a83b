"""Starts the Spark session, with the settings that Tailrace needs."""

from __future__ import annotations

import logging
import os
import signal
import sys
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from py4j.protocol import Py4JError
from pyspark.errors import PySparkException
from pyspark.logger import PySparkLogger
from pyspark.sql import SparkSession

from tailrace import events, temporary
from tailrace.errors import EnvironmentFault
from tailrace.spark.executors import addresses, check_executors, not_accepted
from tailrace.spark.java import find_java
from tailrace.spark.spark_options import DEFAULT_MEMORY, PRELOAD, SQL_SETTINGS, SparkOptions
from tailrace.store.store_ref import EMBEDDED, TASK_VARIABLES

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


def session(
    given: SparkSession | None = None, options: SparkOptions | None = None, scheme: str = EMBEDDED
) -> SparkSession:
    """A new session with Tailrace's settings, in the Spark of `given` or of the active session.

    If there is neither, Spark is started with these options and those of the environment. Its Python workers have
    loaded the store of this scheme (`store/store_ref.py`).
    """
    if given is None:
        given = SparkSession.getActiveSession() or _start((options or SparkOptions()).with_environment(), scheme)
    new_session = given.newSession()
    for name, value in SQL_SETTINGS.items():
        new_session.conf.set(name, value)
    return new_session


def is_running(spark: SparkSession) -> bool:
    """Whether a session can run jobs: its Spark was not stopped and its JVM is alive."""
    try:
        return not spark.sparkContext._jsc.sc().isStopped()
    except PySparkException:  # Spark Connect has no context
        return True
    except (Py4JError, ConnectionError, AttributeError):  # AttributeError after `stop()` in Python
        return False


@contextmanager
def in_job_group(spark: SparkSession, name: str) -> Iterator[None]:
    """Jobs that this thread starts in the block can be cancelled by the name of their group."""
    try:
        spark.sparkContext.setJobGroup(name, name, interruptOnCancel=True)
    except PySparkException:  # Spark Connect has no context
        spark.addTag(_tag(name))
    yield


def cancel_jobs(spark: SparkSession, name: str) -> None:
    """Cancels the jobs of a group. Nothing happens if Spark has stopped."""
    try:
        spark.sparkContext.cancelJobGroup(name)
    except PySparkException:
        spark.interruptTag(_tag(name))
    except (Py4JError, ConnectionError, AttributeError):
        pass


def _tag(name: str) -> str:
    return name.replace(" ", "-")


def _start(options: SparkOptions, scheme: str) -> SparkSession:
    master, memory = options.master or "local[*]", options.memory or DEFAULT_MEMORY
    os.environ["JAVA_HOME"] = find_java()
    os.environ.setdefault("PYSPARK_PYTHON", sys.executable)
    directory = temporary.make()
    log_settings = directory / "log4j2.properties"
    log_settings.write_text(_LOG4J)
    # Spilled rows are in java.io.tmpdir, too. They must not be in /tmp, which all users can list. The setting
    # spark.local.dir would also apply to executors, on other machines.
    java_options = [f"-Dlog4j2.configurationFile={log_settings.as_uri()}", f"-Djava.io.tmpdir={directory}"]
    java_options += ["-XX:+UseParallelGC"]
    settings: dict[str, Any] = {
        "spark.ui.enabled": "false",
        "spark.ui.showConsoleProgress": "false",
        **addresses(master),
        "spark.python.worker.reuse": "true",
        "spark.sql.warehouse.dir": (directory / "warehouse").as_uri(),
        "spark.cleaner.referenceTracking.blocking": "false",
        "spark.sql.codegen.cache.maxEntries": "1000",
        **{f"spark.executorEnv.{name}": os.environ[name] for name in TASK_VARIABLES if name in os.environ},
        **options.conf,
        "spark.driver.memory": memory,
        "spark.driver.extraJavaOptions": " ".join(
            [*java_options, options.conf.get("spark.driver.extraJavaOptions", "")]
        ),
        "spark.python.daemon.module": "tailrace.spark.daemon",
        f"spark.executorEnv.{PRELOAD}": scheme,
        **SQL_SETTINGS,
    }
    builder = SparkSession.builder.master(master).appName("tailrace")
    for name, value in settings.items():
        builder = builder.config(name, value)
    _silence_spark()
    began = time.monotonic()
    with not_accepted(master), _stderr_to(directory / "spark.log"), _own_interrupts():
        spark = builder.getOrCreate()
    check_executors(spark, master)
    spark.sparkContext._accumulatorServer.handle_error = _ignore_error  # it would print a traceback if the JVM dies
    events.spark_started(spark.version, master, memory, time.monotonic() - began)
    return spark


def _silence_spark() -> None:
    """Errors of Spark are raised, and reported once, by the caller. Libraries also print them, with stack traces."""
    for name in ("DataFrameQueryContextLogger", "SQLQueryContextLogger"):
        PySparkLogger.getLogger(name).disabled = True
    root = logging.getLogger()  # where py4j logs a lost connection
    if not any(isinstance(known, _WithoutPy4j) for known in root.filters):
        root.addFilter(_WithoutPy4j())


class _WithoutPy4j(logging.Filter):
    def filter(self, record: logging.LogRecord) -> bool:
        return "py4j" not in Path(record.pathname).parts


def _ignore_error(*_: Any) -> None:
    """The connection of a JVM that has died."""


@contextmanager
def _own_interrupts() -> Iterator[None]:
    """Keeps the application's handler of SIGINT, if it has one: Spark replaces it when it starts."""
    handler = signal.getsignal(signal.SIGINT)
    yield
    if handler is not signal.default_int_handler and threading.current_thread() is threading.main_thread():
        signal.signal(signal.SIGINT, handler)


@contextmanager
def _stderr_to(path: Path) -> Iterator[None]:
    """Redirects the stderr of this process and of its children to a file: the JVM prints notices as it starts.

    If the block fails, the error shows the end of the file.
    """
    sys.stderr.flush()
    original = os.dup(2)
    with path.open("ab") as log:
        os.dup2(log.fileno(), 2)
    try:
        yield
    except Exception as error:
        output = path.read_text(errors="replace").strip()[-2000:]
        raise EnvironmentFault(message=f"Spark did not start: {error}\n{output}") from error
    finally:
        os.dup2(original, 2)
        os.close(original)
