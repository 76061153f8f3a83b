"""What a benchmark found: lines over an axis, beside limits, peers and the paper's, and their targets."""

from __future__ import annotations

import dataclasses
import enum
import statistics
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any


class Whose(enum.StrEnum):
    """Whose figures a line shows."""

    TAILRACE = "tailrace"
    LIMIT = "limit"  # what the machine can do at best
    PEER = "peer"  # another system, in the same run
    PAPER = "paper"  # as published, on the paper's cluster


@dataclass(frozen=True)
class Spread:
    """Repeated measurements of one thing."""

    median: float
    least: float
    most: float
    runs: int

    @classmethod
    def of(cls, values: Sequence[float]) -> Spread:
        return cls(statistics.median(values), min(values), max(values), len(values))


@dataclass(frozen=True)
class Point:
    x: float | str
    y: Spread


@dataclass(frozen=True)
class Line:
    """One line of a plot; `note` says what a reader must know to compare it, such as what a peer ends with.

    A point whose x is "" holds for the whole axis.
    """

    name: str
    whose: Whose
    points: tuple[Point, ...]
    note: str = ""


@dataclass(frozen=True)
class Target:
    """What was aimed at, as a bound on one measured number, and what stands in the way if it was missed."""

    what: str
    wanted: float
    got: float
    at_least: bool = True  # else at most
    why: str = ""

    @property
    def met(self) -> bool:
        return self.got >= self.wanted if self.at_least else self.got <= self.wanted


@dataclass(frozen=True)
class Paper:
    """The figure of a paper that a benchmark answers, and what it shows."""

    title: str
    figure: str
    finding: str


@dataclass(frozen=True)
class Result:
    """A benchmark's figures. Views were verified before they came here."""

    name: str
    title: str
    question: str  # one sentence: what is asked, of which workload
    x: str
    y: str  # what is measured, with its unit
    lines: tuple[Line, ...]
    paper: Paper | None = None
    targets: tuple[Target, ...] = ()
    notes: tuple[str, ...] = ()
    log_x: bool = False
    log_y: bool = False
    seconds: float = field(default=0.0, compare=False)  # the benchmark took so long

    def json(self) -> dict[str, Any]:
        return {**dataclasses.asdict(self), "targets": [{**dataclasses.asdict(t), "met": t.met} for t in self.targets]}

    @classmethod
    def of(cls, found: dict[str, Any]) -> Result:
        """A result from its JSON."""
        lines = tuple(
            Line(
                line["name"],
                Whose(line["whose"]),
                tuple(Point(p["x"], Spread(**p["y"])) for p in line["points"]),
                line["note"],
            )
            for line in found["lines"]
        )
        targets = tuple(Target(**{k: v for k, v in t.items() if k != "met"}) for t in found["targets"])
        paper = Paper(**found["paper"]) if found["paper"] else None
        return cls(**{**found, "lines": lines, "targets": targets, "paper": paper, "notes": tuple(found["notes"])})
