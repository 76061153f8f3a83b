"""What a failed job says of the view that it was building.

outside     nothing: somebody cancelled it, or the disk is full. Tried again when the epoch is
hopeless    an error of ours, raised by a task: the view cannot be built like that
otherwise   a worker or Spark itself was lost, or an expression fails on some row: trying again will tell
"""

from __future__ import annotations

import re

from tailrace.errors import EpochFailed

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
