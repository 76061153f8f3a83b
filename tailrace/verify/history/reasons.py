"""Why no base states explain a view record's states, in a sentence."""

from __future__ import annotations

from collections.abc import Sequence

from tailrace.verify.equality import alike
from tailrace.verify.history.space import Point, Slice
from tailrace.verify.history.timelines import Value
from tailrace.verify.history.verdict import named, shown

FEW = 4


def no_such_value(part: Slice) -> str:
    """For a value that no base state gives."""
    values: list[Value] = []
    for value in [*part.as_written, *part.values.values()]:
        if len(values) > FEW:
            break
        if not any(alike(value, known) for known in values):
            values.append(value)
    listed = [shown(value) for value in values[:FEW]] + (["others"] if len(values) > FEW else [])
    return (
        f"no base state gives this value; they give {', '.join(listed[:-1])}{' or ' if listed[1:] else ''}{listed[-1]}"
    )


def wrong_order(
    part: Slice, first: Sequence[Point], second: Sequence[Point], called: tuple[str, str] = ("first", "second")
) -> str:
    """For two values, by the base states that give each, none of the first at or before one of the second."""
    one, other = called
    for n in range(len(part.last)):
        earliest, latest = min(p[n] for p in first), max(p[n] for p in second)
        if earliest > latest:
            (table, key), line = part.line(n)
            needed, held = (f"version {line[at][0]} ({shown(line[at][1])})" for at in (earliest, latest))
            later = " or later" if any(p[n] > earliest for p in first) else ""
            earlier = " or earlier" if any(p[n] < latest for p in second) else ""
            return f"the {one} needs {table} {named(key)} at {needed}{later}, the {other} still at {held}{earlier}"
    return f"the {one} holds where {_places(part, first)}, the {other} where {_places(part, second)}: never after it"


def no_order(part: Slice, first: Sequence[Point], second: Sequence[Point]) -> str:
    """For two values that no two base states give in either order."""
    back = wrong_order(part, second, first, ("second", "first"))
    return f"no sequence of base states has both: {wrong_order(part, first, second)}; and {back}"


def place(part: Slice, point: Point) -> str:
    """A base state, by the records that matter."""
    lines = [(part.line(n), at) for n, at in enumerate(point)]
    said = [f"{table} {named(key)} is {shown(line[at][1])}" for ((table, key), line), at in lines[:FEW]]
    return " and ".join(said) + (" and so on" if len(lines) > FEW else "")


def _places(part: Slice, points: Sequence[Point]) -> str:
    return ", or ".join(place(part, point) for point in points[:2]) + (", or elsewhere" if len(points) > 2 else "")
