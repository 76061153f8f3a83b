"""What the tasks of an epoch have to do, passed to them as a property of the Spark job.

The Spark plan contains no epoch number and no log range, so the next epoch can reuse it. This saves most of the cost of
a small epoch. All tasks of a job see the same property. A task left over from an earlier job still sees its own.
"""

from __future__ import annotations

from dataclasses import dataclass

import msgspec

from tailrace.store.base import Cut
from tailrace.store.parts import Part

PROPERTY = "tailrace.assignment"


class Assignment(msgspec.Struct, frozen=True):
    """An epoch's number, its log range, and how it reads and writes shards.

    `start`: None reads whole tables as of `end`, to build a view; all states then read as empty.
    `fixed`: states that other views already maintain. They are not written.
    `reset`: written rows replace the whole content of a state, to recompute a view.
    `part`: only this part of the tables is read, to build a view in chunks.
    `keep`: undo records of epochs up to this one may be deleted.
    `term`: the term of the epoch lock.
    `time`, `earlier`: the time of the epoch and of the epoch before, for conditions on the time (microseconds since
    1970).
    `base`: states are read as of this epoch, for views that are several epochs behind. None: the epoch before.
    `dry`: nothing is written, to find out which operator fails.
    """

    epoch: int
    keep: int
    start: Cut | None
    end: Cut
    fixed: frozenset[int] = frozenset()
    reset: bool = False
    part: Part | None = None
    term: int = 0
    time: int = 0
    earlier: int = 0
    base: int | None = None
    dry: bool = False

    @property
    def blank(self) -> bool:
        return self.start is None

    def to_json(self) -> str:
        return msgspec.json.encode(self).decode()

    @classmethod
    def from_json(cls, text: str) -> Assignment:
        return msgspec.json.decode(text, type=cls)


@dataclass(frozen=True)
class AssignmentSource:
    """How tasks come by their assignment: from the job, or (where Spark has no job properties) from the plan."""

    fixed: Assignment | None = None

    def take(self) -> Assignment:
        if self.fixed is not None:
            return self.fixed
        from pyspark import TaskContext

        context = TaskContext.get()
        text = context.getLocalProperty(PROPERTY) if context else None
        assert text is not None, "the Spark job has no assignment"
        return Assignment.from_json(text)
