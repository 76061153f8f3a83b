"""What the last epochs did, kept in the store: how many operations, how long, and how views were refreshed."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from tailrace.plan.refresh import Way
from tailrace.store.base import Store

HELD = 32  # epochs that are remembered
_PREFIX = "epoch:"


def _name(epoch: int) -> str:
    return f"{_PREFIX}{epoch:016d}"


def note(epoch: int, at: float, operations: int, seconds: float, ways: Mapping[str, Way]) -> dict[str, Any]:
    """The documents that add an epoch to the record and take the oldest out, to be written with its commit."""
    record = {
        "epoch": epoch,
        "at": at,
        "operations": operations,
        "seconds": round(seconds, 3),
        "refreshed": {name: {"taken": way.taken, "reason": way.reason} for name, way in sorted(ways.items())},
    }
    return {_name(epoch): record, _name(epoch - HELD): None}


def recent(store: Store) -> list[dict[str, Any]]:
    """The records of the last epochs, the newest first."""
    return [record for _, record in sorted(store.documents(_PREFIX).items(), reverse=True)]


def last_way(records: list[dict[str, Any]], view: str) -> dict[str, Any] | None:
    """How a view that has a choice was refreshed last: the epoch, what was done, and why."""
    for record in records:
        if view in record["refreshed"]:
            return {"epoch": record["epoch"], **record["refreshed"][view]}
    return None
