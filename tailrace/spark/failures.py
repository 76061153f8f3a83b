"""Failed Spark jobs: their exceptions, their reason as a sentence, and whether a retry can help.

outside     the job was cancelled, the disk is full, or executors were lost: not the view's fault, a later attempt may
            succeed
hopeless    a task raised a TailraceError: every attempt fails
otherwise   Spark or a worker was lost, or an expression failed on some row: unknown until it is retried
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any

from py4j.protocol import Py4JError, Py4JJavaError
from pyspark.errors import PySparkException
from pyspark.sql import SparkSession

from tailrace.errors import (
    EnvironmentFault,
    EpochFailed,
    Fenced,
    NotAStore,
    SqlError,
    StoreElsewhere,
    StoreFull,
    StoreUnavailable,
    TailraceError,
)
from tailrace.sent_errors import receive_error
from tailrace.spark.session import is_running

# What a Spark job may raise. Py4JError: Spark's own bugs (a ClassCastException in the optimizer) and lost workers.
# ConnectionError: the JVM is gone.
FAILURES = (PySparkException, Py4JError, ConnectionError)
_TASK = re.compile(r".*\(TID \d+\) \([^)]*\): ")  # Spark's prefix to the error of a task
_AWAITING = "Exception thrown in awaitResult"
_END_OF_STREAM = "java.io.EOFException"  # what Spark reports if it notices a lost worker only when it reads from it
# A task failed on several executors because each of them ended, or rows of a shuffle were lost several times.
_LOST = re.compile("ExecutorLostFailure|has failed the maximum allowable number of times")
_CLASS = re.compile(r"^[\w.$]+(?:Exception|Error): ")


def reason(error: Exception) -> str:
    """The error that a task raised; otherwise the first sentence of Spark's message, without the query context."""
    if isinstance(error, TailraceError) or (sent := receive_error(error)) is not None:
        return str(error if isinstance(error, TailraceError) else sent)
    lines = (_awaited(error) or str(error)).strip().split("\n")
    if "exception was thrown from the Python worker" in lines[0]:
        raised = [line for line in lines[1:] if line[:1].isalpha() and ":" in line and "Traceback" not in line]
        return raised[-1].split(" SQLSTATE:")[0].strip() if raised else lines[0]
    if "error occurred while calling" in lines[0] and len(lines) > 1:
        # Line 1 names the called method. Line 2 has the class and the message of the exception.
        raised_by_task = _TASK.sub("", lines[1].removeprefix(": "))
        if raised_by_task.startswith(_END_OF_STREAM):
            return "Python worker exited unexpectedly; it may have run out of memory"
        return _CLASS.sub("", raised_by_task).split(" SQLSTATE:")[0].strip() or _printed(lines)
    return lines[0].split(" SQLSTATE:")[0]


def _printed(lines: Sequence[str]) -> str:
    """What a Python that did not start has printed last."""
    end = next((number for number, line in enumerate(lines) if line.startswith("PYTHONPATH was")), 0)
    return lines[end - 1].strip()


@contextmanager
def translated(spark: Callable[[], SparkSession]) -> Iterator[None]:
    """Turns a failure of Spark in the block into an error of Tailrace: of the query, or of Spark if it has stopped."""
    try:
        yield
    except FAILURES as error:
        if not is_running(spark()):
            raise EnvironmentFault(message="Spark has stopped. Start this process again") from None
        raise SqlError(message=reason(error)) from None


def _awaited(error: Exception) -> str | None:
    """The message of the failure that another thread of Spark waited for; None if no thread did."""
    raised: Any = error.java_exception if isinstance(error, Py4JJavaError) else None
    if raised is None or _AWAITING not in str(raised.getMessage()):
        return None
    while raised.getCause() is not None and _AWAITING in str(raised.getMessage()):
        raised = raised.getCause()
    return str(raised.getMessage())


CANCELLED, IN_PYTHON = "SPARK_JOB_CANCELLED", "PYTHON_EXCEPTION"


def epoch_failed(epoch: int, error: Exception, prefix: str = "", fed: frozenset[int] = frozenset()) -> EpochFailed:
    """The error of an epoch whose job failed. `cause` is the TailraceError that a task raised, if any.

    `prefix` comes before Spark's own reason. `fed` are the views (their states) for which Spark computes something.
    `suspects` are the views that may be to blame, as far as the error tells: if it is one of Spark's own expressions,
    those; empty if nothing is known. Raises `Fenced` if another process has taken over, and `NotAStore` if the store
    has disappeared: then neither the epoch nor its views are to blame.
    """
    cause = error if isinstance(error, TailraceError) else receive_error(error)
    if isinstance(cause, Fenced | NotAStore):
        raise cause from error
    condition = condition_of(error)
    lost = cause is None and bool(_LOST.search(str(error)))
    suspects = failing_views(cause)
    if not suspects and (cause is not None or condition not in (None, IN_PYTHON)):
        suspects = sorted(fed)
    return EpochFailed(
        epoch=epoch,
        reason=prefix + reason(error),
        cause=cause,
        cancelled=condition == CANCELLED,
        lost=lost,
        suspects=suspects,
    )


def failing_views(cause: TailraceError | None) -> list[int]:
    """The views (their states) that need the operator which raised this error in a task."""
    return [] if cause is None else list(cause.data.get("views", ()))


def condition_of(error: Exception) -> str | None:
    """Spark's error condition, such as `DIVIDE_BY_ZERO`; None if the error has none."""
    raised: Any = error.java_exception if isinstance(error, Py4JJavaError) else error
    try:
        condition = raised.getCondition()
    except (AttributeError, Py4JError, TypeError):  # an exception class without conditions, or the JVM is gone
        return None
    return None if condition is None else str(condition)


def is_outside(error: EpochFailed) -> bool:
    """Whether the cause lies outside the view: a cancelled job, a full disk, a store that does not answer, executors
    that are lost or remote.
    """
    if isinstance(error.cause, StoreFull):
        return bool(error.cause.full == "disk")
    return bool(error.cancelled) or is_lost(error) or isinstance(error.cause, StoreElsewhere | StoreUnavailable)


def is_lost(error: EpochFailed) -> bool:
    """Whether the job failed because executors ended again and again: killed, or out of memory."""
    return bool(error.data.get("lost"))


def is_hopeless(error: EpochFailed) -> bool:
    """Whether a retry is certain to fail too."""
    return error.cause is not None and not is_outside(error)
