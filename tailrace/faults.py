"""Fault points: named places in the protocol where a test makes a process die, fail or wait.

    TAILRACE_FAULTS=DIR    a directory where faults are armed; without it, as in production, a point does nothing
    DIR/<point>            a file that says `action@n`: what happens at the n-th passing, in whichever process, once

    kill       SIGKILL for the process that passes
    raise      `Fault` is raised
    sleep:S    it goes on after S seconds

Then the file says `met`, and by which process. Faults can so be armed one after another while processes run, and
a process that is started again in place of one that was killed does not meet the same fault.

| point            | where it is                                                                       |
|------------------|-----------------------------------------------------------------------------------|
| epoch.intent     | the intent is written, nothing else is touched                                    |
| epoch.work       | before a job is handed to Spark                                                   |
| task.apply       | in a task: its deltas are derived, no shard is written                            |
| shard.commit     | in a task: a shard is written, not committed; n - 1 others may be                 |
| shard.committed  | in a task: a shard is committed; some others may not be                           |
| task.applied     | in a task: all of its shards are committed                                        |
| epoch.commit     | all shards of all tasks are committed, the epoch is not                           |
| epoch.committed  | the epoch is committed, the log not trimmed                                       |
| log.trim         | log entries are trimmed, the notes of their transactions are still there           |
| build.chunk      | before the job that takes a chunk into a view                                     |
| build.publish    | a view is complete, and not published                                             |
| build.published  | it is published, what it leaves behind is still there                             |
| catalog.change   | before a change of the catalog is written                                         |
| catalog.changed  | it is written, what follows from it is not done                                   |
| write.commit     | in a writer: rows and log entries are written, not committed                      |
| write.committed  | in a writer: they are committed, and nobody was told                              |
"""

from __future__ import annotations

import fcntl
import os
import signal
import time
from collections.abc import Callable
from pathlib import Path


class Fault(RuntimeError):
    """What the action `raise` raises. Not one of `tailrace.errors`: it stands for what nobody foresaw."""


class Armed:
    """The points of a process for which faults may be armed in a directory."""

    def __init__(self, directory: str) -> None:
        self._directory = Path(directory)

    def __call__(self, name: str) -> None:
        match self._due(name).split(":"):
            case ["kill"]:
                os.kill(os.getpid(), signal.SIGKILL)
            case ["raise"]:
                raise Fault(f"a fault that was armed at {name}")
            case ["sleep", seconds]:
                time.sleep(float(seconds))

    def _due(self, name: str) -> str:
        """What is to happen at this passing, if anything: counts it, for all processes alike."""
        try:
            file = (self._directory / name).open("r+")
        except FileNotFoundError:
            return ""
        with file:
            fcntl.flock(file, fcntl.LOCK_EX)
            action, _, number = file.read().partition("@")
            if action.startswith("met"):
                return ""
            left = int(number) - 1
            file.seek(0)
            file.truncate()
            file.write(f"{action}@{left}" if left else f"met {os.getpid()}")
        return "" if left else action


def _nothing(name: str) -> None:
    pass


point: Callable[[str], None] = Armed(os.environ["TAILRACE_FAULTS"]) if "TAILRACE_FAULTS" in os.environ else _nothing
