"""What the last epochs did, kept in the store: how many operations, how long, and how views were refreshed."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from tailrace.plan.policy import Way
from tailrace.store.base import Cut, Store
from tailrace.store.commits import PREFIX, name_of

HELD = 32  # epochs that are remembered, if nobody needs older ones


def note(
    store: Store, epoch: int, cut: Cut, at: float, seconds: float, operations: int, ways: Mapping[str, Way], keep: int
) -> dict[str, Any]:
    """The documents that add an epoch to the record and take the oldest out, to be written with its commit.

    Those after epoch `keep` stay, however many: somebody follows the epochs from there.
    """
    gone = [name for name in store.documents(PREFIX) if name <= name_of(min(epoch - HELD, keep))]
    record = {
        "epoch": epoch,
        "cut": [cut.transaction, cut.offsets],
        "at": at,
        "operations": operations,
        "seconds": round(seconds, 3),
        "refreshed": {name: {"taken": way.taken, "reason": way.reason} for name, way in sorted(ways.items())},
    }
    return {name_of(epoch): record, **dict.fromkeys(gone)}


def recent(store: Store) -> list[dict[str, Any]]:
    """The records of the last epochs, the newest first."""
    return [record for _, record in sorted(store.documents(PREFIX).items(), reverse=True)]


def last_way(records: list[dict[str, Any]], view: str) -> dict[str, Any] | None:
    """How a view that has a choice was refreshed last: the epoch, what was done, and why."""
    for record in records:
        if view in record["refreshed"]:
            return {"epoch": record["epoch"], **record["refreshed"][view]}
    return None
