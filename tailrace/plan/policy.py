"""Refresh policies (`WITH (refresh = ...)`), and how an epoch refreshed a view."""

from __future__ import annotations

from typing import Literal, NamedTuple

Refresh = Literal["incremental", "auto", "full"]
POLICIES: tuple[Refresh, ...] = ("incremental", "auto", "full")
Taken = Literal["deltas", "recomputed"]


class Way(NamedTuple):
    """How an epoch refreshed a view, and why."""

    taken: Taken
    reason: str
