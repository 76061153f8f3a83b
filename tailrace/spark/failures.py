"""What a failed job says of the view that it was building.

outside     nothing: somebody cancelled it, or the disk is full. Tried again when the epoch is
hopeless    an error of ours, raised by a task: the view cannot be built like that
otherwise   a worker or Spark itself was lost, or an expression fails on some row: trying again will tell
"""

from __future__ import annotations

import re

from py4j.protocol import Py4JError
from pyspark.errors import PySparkException

from tailrace.errors import EpochFailed

# What a job of Spark's may raise; the second for its own mistakes (a ClassCastException in the optimizer) and for
# processes that it lost, the third when there is no JVM any more.
FAILURES = (PySparkException, Py4JError, ConnectionError)
_TASK = re.compile(r".*\(TID \d+\) \([^)]*\): ")  # in front of what a task failed with
_CLASS = re.compile(r"^[\w.$]+(?:Exception|Error): ")


def reason(error: Exception) -> str:
    """The first sentence of what Spark says, without its query context; of a failed task, what it raised."""
    lines = str(error).strip().split("\n")
    if "exception was thrown from the Python worker" in lines[0]:
        raised = [line for line in lines[1:] if line[:1].isalpha() and ":" in line and "Traceback" not in line]
        return raised[-1].split(" SQLSTATE:")[0].strip() if raised else lines[0]
    if "error occurred while calling" in lines[0] and len(lines) > 1:
        # The first line names the method that was called, the second the exception: its class and its message.
        return _CLASS.sub("", _TASK.sub("", lines[1].removeprefix(": "))).split(" SQLSTATE:")[0]
    return lines[0].split(" SQLSTATE:")[0]


CANCELLED = "SPARK_JOB_CANCELLED"
FULL_DISK = "the disk is full"  # of `StoreFull`
_OURS = re.compile(r"^tailrace\.errors\.\w+: ", re.MULTILINE)


def outside(error: EpochFailed) -> bool:
    """Whether the failure has nothing to do with what was built."""
    said = str(error.__cause__)
    return CANCELLED in said or (FULL_DISK in said and _OURS.search(said) is not None)


def hopeless(error: EpochFailed) -> bool:
    """Whether trying again is in vain: a limit was reached, or what was found cannot be."""
    return not outside(error) and _OURS.search(str(error.__cause__)) is not None
