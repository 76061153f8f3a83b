"""Fault points: named places in the protocol where a test makes a process die, fail or wait.

    TAILRACE_FAULTS=DIR    the directory in which tests arm faults. Unset in production: a point then does nothing
    DIR/<point>            a file that holds `action@n`: the action runs at the n-th visit, counted across all processes

    kill       SIGKILL to the process that reached the point
    raise      raise `Fault`
    sleep:S    continue after S seconds

A fault fires once. The file then holds `met` and the process id. So a test can arm faults one after another while
processes run, and a process that is restarted after a kill does not meet the same fault again.

| point            | where it is                                                                       |
|------------------|-----------------------------------------------------------------------------------|
| epoch.intent     | the intent is written, nothing else                                               |
| epoch.work       | before a job is submitted to Spark                                                |
| task.apply       | in a task: its deltas are computed, no shard is written                           |
| shard.commit     | in a task: a shard is written but not committed; n - 1 others may be committed    |
| shard.decided    | in a task, on HBase: what the epoch writes to a shard is decided, but not written |
| shard.written    | in a task, on HBase: the entries of a shard are written, but not marked as such   |
| shard.committed  | in a task: a shard is committed; others may not be                                |
| task.applied     | in a task: all its shards are committed                                           |
| epoch.commit     | all shards of all tasks are committed, the epoch is not                           |
| epoch.committed  | the epoch is committed, the log is not trimmed                                    |
| view.failed      | the intent leaves a failed view out, its states are not rolled back               |
| view.undone      | the states of a failed view are rolled back in a shard; others may not be         |
| trial.begun      | a trial of a failed view is counted, it has not begun                             |
| tail.round       | on HBase: a round has begun, it has no barriers                                   |
| tail.scanned     | on HBase: a table is scanned, but not marked as attached                          |
| tail.forming     | on HBase: the marks of a transaction are chosen, nothing else                     |
| tail.logged      | on HBase: the log of one more table is written, its images are not                |
| tail.written     | on HBase: log and images of a transaction are written, its note is not            |
| tail.committed   | on HBase: a transaction is committed, its part of the raw log is not deleted      |
| log.trim         | log entries are trimmed, the notes of their transactions are not yet removed      |
| build.chunk      | before the job that adds a chunk to a view                                        |
| build.publish    | a view is complete but not published                                              |
| build.published  | a view is published; leftovers of its build are not yet removed                   |
| catalog.change   | before a change of the catalog is written                                         |
| catalog.changed  | a change of the catalog is written, its follow-up work is not done                |
| backup.copied    | a backup has copied one more part of the store; n - 1 others are copied           |
| backup.packed    | a backup is complete, but still has its temporary name                            |
| restore.copied   | a restore has copied one more file of a backup                                    |
| restore.done     | a restored store is complete, but still has its temporary name                    |
| write.commit     | in a writer: rows are written but not committed; on HBase: they are not written   |
| write.committed  | in a writer: rows and log entries are committed, the caller does not know yet     |
"""

from __future__ import annotations

import fcntl
import os
import signal
import time
from collections.abc import Callable
from pathlib import Path


class Fault(RuntimeError):
    """Raised by the action `raise`. It is not a `TailraceError`, because it stands for an unexpected failure."""


class Armed:
    """The fault points of this process; tests arm them with files in `directory`."""

    def __init__(self, directory: str) -> None:
        self._directory = Path(directory)

    def __call__(self, name: str) -> None:
        match self._due_action(name).split(":"):
            case ["kill"]:
                os.kill(os.getpid(), signal.SIGKILL)
            case ["raise"]:
                raise Fault(f"injected fault at {name}")
            case ["sleep", seconds]:
                time.sleep(float(seconds))

    def _due_action(self, name: str) -> str:
        """Counts this visit, across all processes, and returns the action if the fault is due now, else ''."""
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
