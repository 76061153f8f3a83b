"""The settings that somebody asked for when opening a store."""

from __future__ import annotations

from typing import NamedTuple


class Requested(NamedTuple):
    """None means: the default for a new store, or what an existing store has."""

    nodes: int | None = None
    shards: int | None = None
    durable: bool | None = None
    map_size: int | None = None
