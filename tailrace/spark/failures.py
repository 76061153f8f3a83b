"""Failed Spark jobs: what they raise, what they say, and whether trying again can help.

outside     the job was cancelled, or the disk is full: the next attempt may succeed, the view is not to blame
hopeless    a task raised an error of Tailrace's own: the view cannot be built like this
otherwise   Spark or a worker was lost, or an expression fails on some row: only another attempt tells
"""

from __future__ import annotations

import re
from typing import Any

from py4j.protocol import Py4JError, Py4JJavaError
from pyspark.errors import PySparkException

from tailrace.errors import EpochFailed, Fenced, StoreFull
from tailrace.sent_errors import receive_error

# What a job of Spark's may raise; the second for its own mistakes (a ClassCastException in the optimizer) and for
# processes that it lost, the third when there is no JVM any more.
FAILURES = (PySparkException, Py4JError, ConnectionError)
_TASK = re.compile(r".*\(TID \d+\) \([^)]*\): ")  # in front of what a task failed with
_CLASS = re.compile(r"^[\w.$]+(?:Exception|Error): ")


def reason(error: Exception) -> str:
    """The first sentence of what Spark says, without its query context; of a failed task, what it raised."""
    if (sent := receive_error(error)) is not None:
        return str(sent)
    lines = str(error).strip().split("\n")
    if "exception was thrown from the Python worker" in lines[0]:
        raised = [line for line in lines[1:] if line[:1].isalpha() and ":" in line and "Traceback" not in line]
        return raised[-1].split(" SQLSTATE:")[0].strip() if raised else lines[0]
    if "error occurred while calling" in lines[0] and len(lines) > 1:
        # The first line names the method that was called, the second the exception: its class and its message.
        return _CLASS.sub("", _TASK.sub("", lines[1].removeprefix(": "))).split(" SQLSTATE:")[0]
    return lines[0].split(" SQLSTATE:")[0]


CANCELLED = "SPARK_JOB_CANCELLED"


def epoch_failed(epoch: int, error: Exception, note: str = "{}") -> EpochFailed:
    """The error of an epoch whose job failed. Its `cause` is what a task raised, if that was an error of Tailrace's.

    Raises `Fenced` if another process has taken over: then neither the epoch nor its views are to blame.
    """
    cause, cancelled = receive_error(error), condition_of(error) == CANCELLED
    if isinstance(cause, Fenced):
        raise cause from error
    return EpochFailed(epoch=epoch, reason=note.format(reason(error)), cause=cause, cancelled=cancelled)


def condition_of(error: Exception) -> str | None:
    """Spark's name of what went wrong, if it gives one."""
    raised: Any = error.java_exception if isinstance(error, Py4JJavaError) else error
    try:
        condition = raised.getCondition()
    except (AttributeError, Py4JError, TypeError):  # of another class, or the JVM is gone
        return None
    return None if condition is None else str(condition)


def is_outside(error: EpochFailed) -> bool:
    """Whether the failure has nothing to do with what was built."""
    return bool(error.cancelled) or (isinstance(error.cause, StoreFull) and error.cause.full == "disk")


def is_hopeless(error: EpochFailed) -> bool:
    """Whether another attempt must fail as well."""
    return error.cause is not None and not is_outside(error)
