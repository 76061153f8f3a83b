"""Progress of long statements, told to whoever asked for it."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass


@dataclass(frozen=True)
class Step:
    """Where a statement is: what it does, and for a build how many rows of its tables it has of about how many."""

    what: str
    rows: int | None = None
    total: int | None = None

    def __str__(self) -> str:
        return self.what if self.rows is None else f"{self.what}: {self.rows:,} of {self.total:,} rows"


Say = Callable[[Step], None]
