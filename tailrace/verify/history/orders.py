"""Questions about values in a partial order of base states, each answered in one pass from below.

    p ≤ q   iff   p is reached from q by steps down, one record's position at a time

Points are given with the number of their value (of the values that the view record showed; None is another value).
If some base states are missing, steps through them are too: a yes holds then, a no need not.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import TypeAlias

from tailrace.verify.history.space import Point

Numbered: TypeAlias = Mapping[Point, int | None]


def values_before(points: Numbered) -> dict[int, int]:
    """For each value, which values hold at or before a point where it does, as bits."""
    below: dict[Point, int] = {}
    found: dict[int, int] = {}
    for point, value in _rising(points):
        mask = 0 if value is None else 1 << value
        for lower in _lower(point):
            mask |= below.get(lower, 0)
        below[point] = mask
        if value is not None:
            found[value] = found.get(value, 0) | mask
    return found


def explained(points: Numbered, states: Sequence[int]) -> int:
    """How many of the states, from the first, have base states that rise with them.

    The most that can be explained below a point is all that need be known there: whoever has got further has
    passed everything before.
    """
    done: dict[Point, int] = {}
    for point, value in _rising(points):
        most = max((done.get(lower, 0) for lower in _lower(point)), default=0)
        done[point] = most + (most < len(states) and value == states[most])
    return max(done.values(), default=0)


def in_one_sequence(points: Numbered, values: int) -> bool:
    """Whether some sequence of rising base states has all of the first `values` values, in whichever order."""
    wanted = (1 << values) - 1
    sets: dict[Point, list[int]] = {}
    for point, value in _rising(points):
        own = 0 if value is None else 1 << value
        masks = {own} | {mask | own for lower in _lower(point) for mask in sets.get(lower, ())}
        sets[point] = [m for m in masks if not any(m != o and m & o == m for o in masks)]
        if wanted in sets[point]:
            return True
    return values == 0


def step_by_step(points: Numbered, states: Sequence[int], last: Point) -> bool:
    """Whether making all changes one at a time, in some order, shows just these states."""
    shown: dict[Point, int] = {}
    for point, value in _rising(points):
        before = 0
        for lower in _lower(point):
            before |= shown.get(lower, 0)
        here = sum(1 << n for n, state in enumerate(states) if state == value)
        shown[point] = (here & 1) if not any(point) else here & (before | before << 1)
    return bool(shown[last] >> (len(states) - 1))


def _rising(points: Numbered) -> Iterator[tuple[Point, int | None]]:
    return iter(sorted(points.items(), key=lambda item: sum(item[0])))


def _lower(point: Point) -> Iterator[Point]:
    for n, at in enumerate(point):
        if at:
            yield (*point[:n], at - 1, *point[n + 1 :])
