"""Refresh policies (`WITH (refresh = ...)`), and how an epoch refreshed a view."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

Refresh = Literal["incremental", "auto", "full"]
POLICIES: tuple[Refresh, ...] = ("incremental", "auto", "full")
Taken = Literal["deltas", "recomputed"]


@dataclass(frozen=True)
class Way:
    """How an epoch refreshed a view, and why."""

    taken: Taken
    reason: str
