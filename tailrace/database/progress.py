"""Progress reports of long statements: the steps that `sql()`, `refresh()` and `audit()` pass to a callback."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from tailrace.words import count


@dataclass(frozen=True)
class Step:
    """The current step of a statement. Steps of a build also have the rows loaded so far and the estimated total."""

    what: str
    rows: int | None = None
    total: int | None = None

    def __str__(self) -> str:
        return self.what if self.rows is None else f"{self.what}: {self.rows:,} of {count(self.total or 0, 'row')}"


OnStep = Callable[[Step], None]


def ignore_step(step: Step) -> None:
    """The callback for callers that want no progress reports."""
