"""Refresh policies: what `WITH (refresh = ...)` may say, and what an epoch did with a view."""

from __future__ import annotations

from typing import Literal, NamedTuple

Refresh = Literal["incremental", "auto", "full"]
POLICIES: tuple[Refresh, ...] = ("incremental", "auto", "full")
Taken = Literal["deltas", "recomputed"]


class Way(NamedTuple):
    """How an epoch refreshed a view, and why."""

    taken: Taken
    reason: str
