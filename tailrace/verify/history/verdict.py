"""Levels of consistency, verdicts about histories, and the witnesses against them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from enum import IntEnum
from typing import Any

from tailrace.verify.history.timelines import Key, Value, ViewHistory


class Level(IntEnum):
    """How far a view's states agree with its base tables. Each level includes those below."""

    NONE = 0
    """Not even the last state is right."""
    CONVERGENT = 1
    """The last state is the view of the last base state."""
    WEAK = 2
    """Every state is the view of some base state."""
    STRONG = 3
    """Later states are views of later base states: no reader sees a record go back in time."""
    COMPLETE = 4
    """No base state is left out."""

    def __str__(self) -> str:
        return _NAMES[self]


WIDEST = 200
"""Of a longer value only the start is shown."""

_NAMES = {
    Level.NONE: "inconsistent",
    Level.CONVERGENT: "convergent",
    Level.WEAK: "weakly consistent",
    Level.STRONG: "strongly consistent",
    Level.COMPLETE: "completely consistent",
}


@dataclass(frozen=True)
class Shown:
    """One value that a view record had: the number of the view's state (from 0), and the cut and epoch it came with."""

    state: int
    value: Value
    cut: int | None = None
    epoch: int | None = None

    @property
    def place(self) -> str:
        known = [f"{name} {n}" for name, n in (("epoch", self.epoch), ("cut", self.cut)) if n is not None]
        return f"state {self.state}" + (f" ({', '.join(known)})" if known else "")


def shown_in(view: ViewHistory, number: int, value: Value = None) -> Shown:
    """A value of a record, as it was in a state of the view."""
    return Shown(number, value, view.states[number].cut, view.states[number].epoch)


@dataclass(frozen=True)
class Witness:
    """Why a level is not reached: the fewest states of one view record that show it, the earliest such.

    `level` is the level missed; None is that several views do not agree on a cut. If `whole`, it is about the view's
    states as such, and not about a record.
    """

    level: Level | None
    view: str
    key: Key
    states: Sequence[Shown]
    reason: str
    whole: bool = False

    def __str__(self) -> str:
        missed = f"not {self.level}" if self.level is not None else "not of one snapshot"
        lines = [f"view {self.view}{'' if self.whole else f', record {named(self.key)}'}: {missed}"]
        for state in self.states:
            lines.append(f"  {state.place}{'' if self.whole else f': {shown(state.value)}'}")
        return "\n".join([*lines, f"  {self.reason}"])


@dataclass(frozen=True)
class ViewVerdict:
    """What was found about one view: at least `level`, at most `at_most`; they differ if the bound was hit.

    There is a witness for each condition that is violated, lowest level first. `looked_at` is the number of base
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
        found = f"at least {self.level}, at most {self.at_most}"
        return f"view {self.view}: {found} (undecided after {self.looked_at} base states; raise the bound)"


@dataclass(frozen=True)
class Verdict:
    """What was found about all views. `snapshot` is None if it was not checked: no certificates, or no epochs."""

    views: Mapping[str, ViewVerdict]
    snapshot: bool | None
    split: Witness | None = None
    """Views published together that do not name one cut."""

    @property
    def level(self) -> Level:
        """The level that all views reach, at least."""
        return min(v.level for v in self.views.values())

    @property
    def at_most(self) -> Level:
        """The lowest level that some view is known not to exceed."""
        return min(v.at_most for v in self.views.values())

    @property
    def bounded(self) -> bool:
        """Whether the bound was hit, so that the level may be higher than `level`."""
        return self.level < self.at_most

    @property
    def witness(self) -> Witness | None:
        """Why not all views are strongly consistent, at the lowest level missed; or else, why they are no snapshot.

        What is missing to complete consistency is among each view's own witnesses.
        """
        found = [(w.level, w) for v in self.views.values() for w in v.witnesses if w.level is not None]
        lowest = min(found, key=lambda pair: pair[0], default=(Level.COMPLETE, None))
        return self.split if lowest[0] > Level.STRONG else lowest[1]

    def __str__(self) -> str:
        lines = [str(v) for v in self.views.values()]
        if self.snapshot is not None:
            lines.append(f"views published together {'name one cut' if self.snapshot else 'do not name one cut'}")
        return "\n".join([*lines, *([str(self.witness)] if self.witness else [])])


def shown(value: Value) -> str:
    """A row as a person reads it."""
    text = "absent" if value is None else named(value)
    return text if len(text) <= WIDEST else f"{text[:WIDEST]}..."


def named(value: Any) -> str:
    """A key, or a value within a row."""
    match value:
        case None:
            return "NULL"
        case str():
            return value or "''"
        case tuple():
            return "(" + ", ".join(map(named, value)) + ")"
        case Mapping():
            return "{" + ", ".join(f"{key}: {named(inner)}" for key, inner in value.items()) + "}"
        case _:
            return str(value)
