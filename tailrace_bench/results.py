"""The data model of a benchmark's result: lines of Tailrace, limits, peers and papers, and targets. Also its JSON."""

from __future__ import annotations

import dataclasses
import enum
import statistics
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any


class Whose(enum.StrEnum):
    """The origin of a line's figures."""

    TAILRACE = "tailrace"
    LIMIT = "limit"  # what the machine can do at best
    PEER = "peer"  # another system, measured in the same run
    PAPER = "paper"  # as published, on the paper's cluster


@dataclass(frozen=True)
class Spread:
    """Summary of repeated measurements. Published figures have `runs` 0."""

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
    """One line of a plot. `note` says what a reader must know to compare it, such as what a peer's output is.

    A point with x "" applies to the whole axis.
    """

    name: str
    whose: Whose
    points: tuple[Point, ...]
    note: str = ""


@dataclass(frozen=True)
class Target:
    """A bound on one measured number; `why` explains a miss."""

    what: str
    wanted: float
    got: float
    at_least: bool = True  # False: at most
    why: str = ""

    @property
    def met(self) -> bool:
        return self.got >= self.wanted if self.at_least else self.got <= self.wanted


@dataclass(frozen=True)
class Paper:
    """The figure of a paper that a benchmark repeats, and its finding."""

    title: str
    figure: str
    finding: str


@dataclass(frozen=True)
class Result:
    """A benchmark's figures, from views that were verified."""

    name: str
    title: str
    question: str  # the question and the workload, in one or two sentences
    x: str
    y: str  # what is measured, with its unit
    lines: tuple[Line, ...]
    paper: Paper | None = None
    targets: tuple[Target, ...] = ()
    notes: tuple[str, ...] = ()
    log_x: bool = False
    log_y: bool = False
    seconds: float = field(default=0.0, compare=False)  # duration of the benchmark

    def json(self) -> dict[str, Any]:
        return {**dataclasses.asdict(self), "targets": [{**dataclasses.asdict(t), "met": t.met} for t in self.targets]}

    @classmethod
    def from_json(cls, document: dict[str, Any]) -> Result:
        lines = tuple(
            Line(
                line["name"],
                Whose(line["whose"]),
                tuple(Point(p["x"], Spread(**p["y"])) for p in line["points"]),
                line["note"],
            )
            for line in document["lines"]
        )
        targets = tuple(Target(**{k: v for k, v in t.items() if k != "met"}) for t in document["targets"])
        paper = Paper(**document["paper"]) if document["paper"] else None
        return cls(
            **{**document, "lines": lines, "targets": targets, "paper": paper, "notes": tuple(document["notes"])}
        )
