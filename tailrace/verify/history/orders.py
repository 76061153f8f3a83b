"""Questions about values over a partial order of base states, each answered in one pass from the lowest state up.

    p ≤ q   iff   p can be reached from q by moving single records back to earlier versions

Each point comes with the number of the view record's value there, or None if the record never showed that value.
If some base states were not evaluated, paths through them are missing: then "yes" is certain, "no" is not.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import TypeAlias

from tailrace.verify.history.space import Point

Numbered: TypeAlias = Mapping[Point, int | None]


def values_before(points: Numbered) -> dict[int, int]:
    """For each value, a bit mask of the values that occur at or before some point with this value."""
    masks: dict[Point, int] = {}
    masks_by_value: dict[int, int] = {}
    for point, value in _rising(points):
        mask = 0 if value is None else 1 << value
        for lower in _predecessors(point):
            mask |= masks.get(lower, 0)
        masks[point] = mask
        if value is not None:
            masks_by_value[value] = masks_by_value.get(value, 0) | mask
    return masks_by_value


def explained_prefix(points: Numbered, states: Sequence[int]) -> int:
    """The length of the longest prefix of the states that some sequence of rising base states gives.

    One number per point is enough, the longest prefix explained at or below it: it includes every shorter one.
    """
    lengths: dict[Point, int] = {}
    for point, value in _rising(points):
        longest = max((lengths.get(lower, 0) for lower in _predecessors(point)), default=0)
        lengths[point] = longest + (longest < len(states) and value == states[longest])
    return max(lengths.values(), default=0)


def in_one_sequence(points: Numbered, values: int) -> bool:
    """Whether some sequence of rising base states gives all of the first `values` values, in any order."""
    all_values = (1 << values) - 1
    masks_at: dict[Point, list[int]] = {}
    for point, value in _rising(points):
        own = 0 if value is None else 1 << value
        masks = {own} | {mask | own for lower in _predecessors(point) for mask in masks_at.get(lower, ())}
        # Only maximal sets of values matter.
        masks_at[point] = [m for m in masks if not any(m != o and m & o == m for o in masks)]
        if all_values in masks_at[point]:
            return True
    return values == 0


def step_by_step(points: Numbered, states: Sequence[int], last: Point) -> bool:
    """Whether applying all changes one at a time, in some order, gives exactly these states."""
    positions: dict[Point, int] = {}  # bit n: some path to the point has shown exactly states[: n + 1]
    for point, value in _rising(points):
        before = 0
        for lower in _predecessors(point):
            before |= positions.get(lower, 0)
        here = sum(1 << n for n, state in enumerate(states) if state == value)
        positions[point] = (here & 1) if not any(point) else here & (before | before << 1)
    return bool(positions[last] >> (len(states) - 1))


def _rising(points: Numbered) -> Iterator[tuple[Point, int | None]]:
    return iter(sorted(points.items(), key=lambda item: sum(item[0])))


def _predecessors(point: Point) -> Iterator[Point]:
    for n, at in enumerate(point):
        if at:
            yield (*point[:n], at - 1, *point[n + 1 :])
