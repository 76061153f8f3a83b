"""Why no base states explain a view record's states, in a sentence."""

from __future__ import annotations

from collections.abc import Sequence

from tailrace.verify.model import Value, alike
from tailrace.verify.space import Point, Slice
from tailrace.verify.verdict import shown

FEW = 4


def no_such_value(part: Slice) -> str:
    """For a value that no base state gives."""
    values: list[Value] = []
    for value in part.values.values():
        if len(values) > FEW:
            break
        if not any(alike(value, known) for known in values):
            values.append(value)
    listed = " or ".join(map(shown, values[:FEW])) + (" or others" if len(values) > FEW else "")
    return f"no base state gives this value: the record can be {listed} only"


def wrong_order(part: Slice, first: Sequence[Point], second: Sequence[Point]) -> str:
    """For two values, by the base states that give each, none of the first at or before one of the second."""
    for n in range(len(part.last)):
        earliest, latest = min(p[n] for p in first), max(p[n] for p in second)
        if earliest > latest:
            (table, key), line = part.line(n)
            needs = [f"{table} {shown(key)} at version {v} ({shown(row)})" for v, row in (line[earliest], line[latest])]
            return f"the first needs {needs[0]} or later, the second {needs[1]} or earlier"
    return (
        f"the first holds where {_places(part, first)}; the second where {_places(part, second)}: never at or after it"
    )


def place(part: Slice, point: Point) -> str:
    """A base state, by the records that matter."""
    lines = (part.line(n) for n in range(len(point)))
    named = [
        f"{table} {shown(key)} is {shown(line[at][1])}" for ((table, key), line), at in zip(lines, point, strict=True)
    ]
    return " and ".join(named[:FEW]) + (" and so on" if len(named) > FEW else "")


def _places(part: Slice, points: Sequence[Point]) -> str:
    return ", or ".join(place(part, point) for point in points[:2]) + (", or elsewhere" if len(points) > 2 else "")
