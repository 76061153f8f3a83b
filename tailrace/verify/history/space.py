"""The space of base states that a search evaluates: each at most once, and at most `bound` in total.

    base states = versions of record 1 × versions of record 2 × ...

A slice is the part of this space that matters for one view record: other base records stay at their first version.
A put that does not change the row makes no version here, because it makes no other base state.
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
    """The allowed number of base states was evaluated."""


class Space:
    """The view at each base state, computed on demand."""

    def __init__(self, base: BaseHistory, view: ViewHistory, definition: Definition, bound: int) -> None:
        self._base, self._view, self._definition, self._bound = base, view, definition, bound
        self._seen: dict[Point, Mapping[Any, Value]] = {}
        distinct = {record: _distinct(values) for record, values in base.timelines.items()}
        # One dimension for each record with at least two distinct versions.
        self.timelines = {record: versions for record, versions in distinct.items() if len(versions) > 1}
        self.last: Point = tuple(len(versions) - 1 for versions in self.timelines.values())
        self.size = math.prod(n + 1 for n in self.last)

    @property
    def looked_at(self) -> int:
        return len(self._seen)

    @property
    def seen(self) -> Mapping[Point, Mapping[Any, Value]]:
        """The base states evaluated so far, in that order, with the view of each."""
        return self._seen

    def view_at(self, point: Point) -> Mapping[Any, Value]:
        """The view of a base state. Raises `BoundHit` if the bound allows no further base state."""
        if point not in self._seen:
            if len(self._seen) >= self._bound:
                raise BoundHit
            self._seen[point] = self._view.observed(self._definition(self.rows(point)))
        return self._seen[point]

    def rows(self, point: Point) -> dict[Record, Value]:
        rows = dict(self._base.initial)
        rows.update({r: versions[at][1] for (r, versions), at in zip(self.timelines.items(), point, strict=True)})
        return {record: value for record, value in rows.items() if value is not None}

    @cached_property
    def as_written(self) -> list[Point]:
        """The base states in the order of the changes, one change at a time."""
        dimensions = {(r, version): n for n, (r, line) in enumerate(self.timelines.items()) for version, _ in line}
        version_of, position = dict.fromkeys(self._base.timelines, 0), [0] * len(self.timelines)
        points = [tuple(position)]
        for change in self._base.changes:
            version_of[change.record] += 1
            dimension = dimensions.get((change.record, version_of[change.record]))
            if dimension is not None:
                position[dimension] += 1
                points.append(tuple(position))
        return points

    def slice(self, key: Key, matters: Matters | None) -> Slice:
        if matters is None:
            return Slice(self, key, tuple(range(len(self.timelines))))
        versions = self._base.timelines
        return Slice(self, key, tuple(n for n, r in enumerate(self.timelines) if matters(key, r, versions[r])))


class Slice:
    """The base states that can differ for one view record, and the record's value at those evaluated so far."""

    def __init__(self, space: Space, key: Key, records: Sequence[int]) -> None:
        self._space, self._key, self._records = space, key, records
        self.last = self._project(space.last)
        self.size = math.prod(n + 1 for n in self.last)

    @cached_property
    def values(self) -> dict[Point, Value]:
        return {self._project(point): view.get(self._key) for point, view in self._space.seen.items()}

    @property
    def as_written(self) -> Iterator[Value]:
        """The record's values in the order of the changes."""
        seen = self._space.seen
        return (seen[point].get(self._key) for point in self._space.as_written if point in seen)

    @property
    def complete(self) -> bool:
        """Whether all base states that matter were evaluated."""
        return len(self.values) == self.size

    def explore(self) -> Iterator[None]:
        """Evaluates one more base state per step, nearest neighbours first. Raises `BoundHit` at the bound."""
        waiting = deque(self.values)
        while waiting:
            for point in self._neighbours(waiting.popleft()):
                if point not in self.values:
                    self.values[point] = self._space.view_at(self._embed(point)).get(self._key)
                    waiting.append(point)
                    yield

    def timeline(self, dimension: int) -> tuple[Record, list[tuple[int, Value]]]:
        """The base record of a dimension of this slice, and its versions with their numbers."""
        return list(self._space.timelines.items())[self._records[dimension]]

    def _project(self, point: Point) -> Point:
        return point if len(self._records) == len(point) else tuple(point[n] for n in self._records)

    def _embed(self, point: Point) -> Point:
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
    """The versions that differ from the previous one, with their numbers."""
    versions = [(0, values[0])]
    for number, value in enumerate(values):
        if not alike(versions[-1][1], value):
            versions.append((number, value))
    return versions
