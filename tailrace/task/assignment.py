"""What an epoch's tasks are to do: handed to them beside the plan, not inside it.

A plan that says nothing of a particular epoch can be run again for the next one, which saves most of what
a small epoch costs. So the number and range of an epoch travel as a property of the Spark job: every
task of the job sees the same, and a task left over from an earlier job still sees its own.
"""

from __future__ import annotations

from dataclasses import dataclass

import msgspec

from tailrace.store.base import Cut
from tailrace.store.parts import Part

PROPERTY = "tailrace.assignment"


class Assignment(msgspec.Struct, frozen=True):
    """An epoch's number, the logs it covers, and how shards are to be treated.

    `start` None means from nothing: whole tables as of `end`, by which a view is built. Then states are read
    as if empty, and those in `fixed`, which others keep already, are not written. With `reset` what is written takes
    the place of all that a state holds in the shard, by which views are recomputed. With `part` only that part of the
    tables counts, for views that are built chunk by chunk. Undo records of epochs up to `keep` may go.
    `term` is that of the epoch lock.
    """

    epoch: int
    keep: int
    start: Cut | None
    end: Cut
    fixed: frozenset[int] = frozenset()
    reset: bool = False
    part: Part | None = None
    term: int = 0

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
        assert text is not None, "a task outside an epoch's job"
        return Assignment.from_json(text)
