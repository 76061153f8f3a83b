"""The base states that a search looks at: each computed once, and no more than a bound in all.

    base states = versions of record 1 × versions of record 2 × ...

A slice is the part of this space that matters for one view record: other base records stay at their first version.
Puts that leave a row as it was make no version here: the base states with and without them are the same.
"""

from __future__ import annotations

import math
from collections import deque
from collections.abc import Iterator, Mapping, Sequence
from functools import cached_property
from typing import Any, TypeAlias

from tailrace.verify.equality import alike
from tailrace.verify.history.timelines import BaseHistory, Definition, Key, Matters, Record, Value, ViewHistory

Point: TypeAlias = tuple[int, ...]
"""A base state: the position of each record in its timeline."""


class BoundHit(Exception):
    """As many base states as allowed were looked at."""


class Space:
    """A view's value at every base state, computed when asked for."""

    def __init__(self, base: BaseHistory, view: ViewHistory, definition: Definition, bound: int) -> None:
        self._base, self._view, self._definition, self._bound = base, view, definition, bound
        self._seen: dict[Point, Mapping[Any, Value]] = {}
        lines = {record: _distinct(values) for record, values in base.timelines.items()}
        self.lines = {record: line for record, line in lines.items() if len(line) > 1}
        self.last: Point = tuple(len(line) - 1 for line in self.lines.values())
        self.size = math.prod(n + 1 for n in self.last)

    @property
    def looked_at(self) -> int:
        return len(self._seen)

    @property
    def seen(self) -> Mapping[Point, Mapping[Any, Value]]:
        """The base states looked at so far, in that order, and the view of each."""
        return self._seen

    def view_at(self, point: Point) -> Mapping[Any, Value]:
        """The view of a base state; `BoundHit` if that would be one too many."""
        if point not in self._seen:
            if len(self._seen) >= self._bound:
                raise BoundHit
            self._seen[point] = self._view.observed(self._definition(self.rows(point)))
        return self._seen[point]

    def rows(self, point: Point) -> dict[Record, Value]:
        rows = dict(self._base.initial)
        rows.update({r: line[at][1] for (r, line), at in zip(self.lines.items(), point, strict=True)})
        return {record: value for record, value in rows.items() if value is not None}

    @cached_property
    def as_written(self) -> list[Point]:
        """The base states in the order in which the changes were made, one change at a time."""
        steps = {(r, version): n for n, (r, line) in enumerate(self.lines.items()) for version, _ in line}
        done, at = dict.fromkeys(self._base.timelines, 0), [0] * len(self.lines)
        found = [tuple(at)]
        for change in self._base.changes:
            done[change.record] += 1
            number = steps.get((change.record, done[change.record]))
            if number is not None:
                at[number] += 1
                found.append(tuple(at))
        return found

    def slice(self, key: Key, matters: Matters | None) -> Slice:
        if matters is None:
            return Slice(self, key, tuple(range(len(self.lines))))
        timelines = self._base.timelines
        return Slice(self, key, tuple(n for n, r in enumerate(self.lines) if matters(key, r, timelines[r])))


class Slice:
    """The base states that differ for one view record, and the record's value at those looked at."""

    def __init__(self, space: Space, key: Key, records: Sequence[int]) -> None:
        self._space, self._key, self._records = space, key, records
        self.last = self._of(space.last)
        self.size = math.prod(n + 1 for n in self.last)

    @cached_property
    def values(self) -> dict[Point, Value]:
        return {self._of(point): view.get(self._key) for point, view in self._space.seen.items()}

    @property
    def as_written(self) -> Iterator[Value]:
        """The record's value as the changes were made, one after the other."""
        seen = self._space.seen
        return (seen[point].get(self._key) for point in self._space.as_written if point in seen)

    @property
    def complete(self) -> bool:
        """Whether all base states that matter were looked at."""
        return len(self.values) == self.size

    def explore(self) -> Iterator[None]:
        """Look at one base state more with each step, those near to the ones seen first; `BoundHit` at the bound."""
        waiting = deque(self.values)
        while waiting:
            for point in self._neighbours(waiting.popleft()):
                if point not in self.values:
                    self.values[point] = self._space.view_at(self._whole(point)).get(self._key)
                    waiting.append(point)
                    yield

    def line(self, number: int) -> tuple[Record, list[tuple[int, Value]]]:
        """The record that a point's position of this number is about, and its versions."""
        return list(self._space.lines.items())[self._records[number]]

    def _of(self, point: Point) -> Point:
        return point if len(self._records) == len(point) else tuple(point[n] for n in self._records)

    def _whole(self, point: Point) -> Point:
        whole = [0] * len(self._space.last)
        for n, at in zip(self._records, point, strict=True):
            whole[n] = at
        return tuple(whole)

    def _neighbours(self, point: Point) -> Iterator[Point]:
        for n, at in enumerate(point):
            for near in (at + 1, at - 1):
                if 0 <= near <= self.last[n]:
                    yield (*point[:n], near, *point[n + 1 :])


def _distinct(values: Sequence[Value]) -> list[tuple[int, Value]]:
    """Versions that differ from the one before, with their numbers."""
    found = [(0, values[0])]
    for number, value in enumerate(values):
        if not alike(found[-1][1], value):
            found.append((number, value))
    return found
