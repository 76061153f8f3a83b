"""Witness sentences: say why no base states explain a view record's states."""

from __future__ import annotations

from collections.abc import Sequence

from tailrace.verify.equality import alike
from tailrace.verify.history.space import Point, Slice
from tailrace.verify.history.timelines import Value
from tailrace.verify.history.verdict import format_row, format_value

FEW = 4
"""How many values or base records a sentence lists."""


def no_such_value(part: Slice) -> str:
    """The reason for a value that no base state gives."""
    values: list[Value] = []
    for value in [*part.as_written, *part.values.values()]:
        if len(values) > FEW:
            break
        if not any(alike(value, known) for known in values):
            values.append(value)
    texts = [format_row(value) for value in values[:FEW]] + (["others"] if len(values) > FEW else [])
    alternatives = f"{', '.join(texts[:-1])}{' or ' if texts[1:] else ''}{texts[-1]}"
    return f"no base state gives this value; base states give {alternatives}"


def wrong_order(
    part: Slice, first: Sequence[Point], second: Sequence[Point], labels: tuple[str, str] = ("first", "second")
) -> str:
    """The reason for two values where no base state of the first is at or before one of the second.

    `first` and `second` are the base states that give each value.
    """
    label, other_label = labels
    for n in range(len(part.last)):
        earliest, latest = min(p[n] for p in first), max(p[n] for p in second)
        if earliest > latest:
            (table, key), versions = part.timeline(n)
            needed, limit = (f"version {versions[at][0]} ({format_row(versions[at][1])})" for at in (earliest, latest))
            later = " or later" if any(p[n] > earliest for p in first) else ""
            earlier = " or earlier" if any(p[n] < latest for p in second) else ""
            return (
                f"the {label} state needs {table} {format_value(key)} at {needed}{later},"
                f" the {other_label} needs it at {limit}{earlier}"
            )
    return (
        f"no base state of the {other_label} value comes at or after one of the {label}:"
        f" the {label} holds where {_describe_any(part, first)}; the {other_label} where {_describe_any(part, second)}"
    )


def no_order(part: Slice, first: Sequence[Point], second: Sequence[Point]) -> str:
    """The reason for two values that no two comparable base states give, in either order."""
    reverse = wrong_order(part, second, first, ("second", "first"))
    return f"no sequence of base states gives both values: {wrong_order(part, first, second)}; in reverse, {reverse}"


def describe_point(part: Slice, point: Point) -> str:
    """A base state, described by the rows of the base records that matter."""
    versions_at = [(part.timeline(n), at) for n, at in enumerate(point)]
    rows = [
        f"{table} {format_value(key)} is {format_row(versions[at][1])}"
        for ((table, key), versions), at in versions_at[:FEW]
    ]
    return " and ".join(rows) + (" and so on" if len(versions_at) > FEW else "")


def _describe_any(part: Slice, points: Sequence[Point]) -> str:
    return ", or ".join(describe_point(part, point) for point in points[:2]) + (
        ", or elsewhere" if len(points) > 2 else ""
    )
