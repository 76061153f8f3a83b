"""The result of a check: consistency levels, verdicts, and witnesses that explain why a level is missed."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from enum import IntEnum
from typing import Any

from tailrace.verify.history.timelines import Key, Value, ViewHistory


class Level(IntEnum):
    """How well a view's states agree with its base tables. Each level includes the lower ones."""

    NONE = 0
    """The last state is wrong."""
    CONVERGENT = 1
    """The last state is the view of the last base state."""
    WEAK = 2
    """Every state is the view of some base state."""
    STRONG = 3
    """Later states are views of later base states: no record goes back in time."""
    COMPLETE = 4
    """No base state is skipped."""

    def __str__(self) -> str:
        return _NAMES[self]


WIDEST = 200
"""Longer values are cut off after this many characters."""

_NAMES = {
    Level.NONE: "inconsistent",
    Level.CONVERGENT: "convergent",
    Level.WEAK: "weakly consistent",
    Level.STRONG: "strongly consistent",
    Level.COMPLETE: "completely consistent",
}


@dataclass(frozen=True)
class Shown:
    """The value of a view record in one state. States are numbered from 0; `cut` and `epoch` are those of the state."""

    state: int
    value: Value
    cut: int | None = None
    epoch: int | None = None

    @property
    def place(self) -> str:
        details = [f"{name} {n}" for name, n in (("epoch", self.epoch), ("cut", self.cut)) if n is not None]
        return f"state {self.state}" + (f" ({', '.join(details)})" if details else "")


def shown_in(view: ViewHistory, number: int, value: Value = None) -> Shown:
    """A record's value in the view's state of this number."""
    return Shown(number, value, view.states[number].cut, view.states[number].epoch)


@dataclass(frozen=True)
class Witness:
    """Why a level is missed: the smallest set of states of one view record that proves it, the earliest such set.

    `level` is the missed level, or None if views published together have different cuts. If `whole`, the witness is
    about the view's states as a whole, not about one record.
    """

    level: Level | None
    view: str
    key: Key
    states: Sequence[Shown]
    reason: str
    whole: bool = False

    def __str__(self) -> str:
        missed = f"not {self.level}" if self.level is not None else "not in the same snapshot as other views"
        lines = [f"view {self.view}{'' if self.whole else f', record {format_value(self.key)}'}: {missed}"]
        for state in self.states:
            lines.append(f"  {state.place}{'' if self.whole else f': {format_row(state.value)}'}")
        return "\n".join([*lines, f"  {self.reason}"])


@dataclass(frozen=True)
class ViewVerdict:
    """The result for one view: it reaches at least `level` and at most `at_most`. They differ if the bound was hit.

    `witnesses` has one witness for each violated condition, lowest level first. `looked_at` is the number of base
    states for which the view was computed.
    """

    view: str
    level: Level
    at_most: Level
    witnesses: Sequence[Witness]
    looked_at: int

    def __str__(self) -> str:
        if self.level == self.at_most:
            return f"view {self.view}: {self.level}"
        levels = f"at least {self.level}, at most {self.at_most}"
        return f"view {self.view}: {levels} (undecided after {self.looked_at} base states; raise the bound)"


@dataclass(frozen=True)
class Verdict:
    """The result for all views.

    `snapshot` says whether views published together have the same cut. It is None if this was not checked, because
    there are no certificates or no two views share an epoch.
    """

    views: Mapping[str, ViewVerdict]
    snapshot: bool | None
    split: Witness | None = None
    """The witness for views that were published together but have different cuts."""

    @property
    def level(self) -> Level:
        """The level that every view reaches at least."""
        return min(v.level for v in self.views.values())

    @property
    def at_most(self) -> Level:
        """The upper limit of the level that all views reach."""
        return min(v.at_most for v in self.views.values())

    @property
    def bounded(self) -> bool:
        """Whether the bound was hit, so that the real level may be higher than `level`."""
        return self.level < self.at_most

    @property
    def witness(self) -> Witness | None:
        """Why not all views are strongly consistent, for the lowest missed level; otherwise why they are no snapshot.

        Witnesses against complete consistency are only in each view's own `witnesses`.
        """
        candidates = [(w.level, w) for v in self.views.values() for w in v.witnesses if w.level is not None]
        lowest = min(candidates, key=lambda pair: pair[0], default=(Level.COMPLETE, None))
        return self.split if lowest[0] > Level.STRONG else lowest[1]

    def __str__(self) -> str:
        lines = [str(v) for v in self.views.values()]
        if self.snapshot is not None:
            lines.append(f"views published together have {'the same cut' if self.snapshot else 'different cuts'}")
        return "\n".join([*lines, *([str(self.witness)] if self.witness else [])])


def format_row(value: Value) -> str:
    """A row as text for people; None is an absent row."""
    text = "absent" if value is None else format_value(value)
    return text if len(text) <= WIDEST else f"{text[:WIDEST]}..."


def format_value(value: Any) -> str:
    """A key, or a value within a row, as text for people."""
    match value:
        case None:
            return "NULL"
        case str():
            return value or "''"
        case tuple():
            return "(" + ", ".join(map(format_value, value)) + ")"
        case Mapping():
            return "{" + ", ".join(f"{key}: {format_value(inner)}" for key, inner in value.items()) + "}"
        case _:
            return str(value)
