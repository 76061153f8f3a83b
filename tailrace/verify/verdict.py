"""Levels of consistency, verdicts about histories, and the witnesses against them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from enum import IntEnum
from typing import Any

from tailrace.verify.model import Key, Value


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


_NAMES = {
    Level.NONE: "inconsistent",
    Level.CONVERGENT: "convergent",
    Level.WEAK: "weakly consistent",
    Level.STRONG: "strongly consistent",
    Level.COMPLETE: "completely consistent",
}


@dataclass(frozen=True)
class Shown:
    """One value that a view record had: the number of its state (from 0), the value, and the cut that it claims."""

    state: int
    value: Value
    cut: int | None = None


@dataclass(frozen=True)
class Witness:
    """Why a level is not reached: the fewest states of one view record that show it, the earliest such.

    `level` is the level missed; None is that several views do not agree on a cut.
    """

    level: Level | None
    view: str
    key: Key
    states: Sequence[Shown]
    reason: str

    def __str__(self) -> str:
        missed = f"not {self.level}" if self.level is not None else "not one snapshot"
        lines = [f"view {self.view}{'' if self.key is None else f', record {shown(self.key)}'}: {missed}"]
        for state in self.states:
            cut = "" if state.cut is None else f" (cut {state.cut})"
            lines.append(f"  state {state.state}{cut}: {shown(state.value)}")
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
        """Why the level is not the next higher one; of a strong history, why it is no snapshot."""
        if self.split is not None and self.level >= Level.STRONG:
            return self.split
        found = (w for v in self.views.values() for w in v.witnesses)
        return next((w for w in found if w.level is not None and w.level == self.level + 1), None)

    def __str__(self) -> str:
        lines = [str(v) for v in self.views.values()]
        if self.snapshot is not None:
            lines.append(f"views published together {'name one cut' if self.snapshot else 'do not name one cut'}")
        return "\n".join([*lines, *([str(self.witness)] if self.witness else [])])


def shown(value: Any) -> str:
    """A value as a person reads it."""
    if value is None:
        return "absent"
    if isinstance(value, Mapping):
        return "{" + ", ".join(f"{k}: {_plain(v)}" for k, v in value.items()) + "}"
    return _plain(value)


def _plain(value: Any) -> str:
    if isinstance(value, tuple):
        return "(" + ", ".join(map(_plain, value)) + ")"
    return value if isinstance(value, str) else repr(value)
