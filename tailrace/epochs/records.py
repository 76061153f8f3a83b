"""What the last epochs did, kept in the store: how many operations, how long, and how views were refreshed."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from msgspec import structs

from tailrace.plan.policy import Way
from tailrace.store.base import Cut, Store
from tailrace.store.commits import EPOCHS, EpochRecord, Refreshed, epoch_key

HELD = 32  # epochs that are remembered, if nobody needs older ones


def note(
    store: Store, epoch: int, cut: Cut, at: float, seconds: float, operations: int, ways: Mapping[str, Way], keep: int
) -> dict[str, Any]:
    """The documents that add an epoch to the record and take the oldest out, to be written with its commit.

    Those after epoch `keep` stay, however many: somebody follows the epochs from there.
    """
    oldest = epoch_key(min(epoch - HELD, keep))
    gone = [key for key in store.documents(EPOCHS) if key <= oldest]
    refreshed = {name: Refreshed(way.taken, way.reason) for name, way in sorted(ways.items())}
    record = EpochRecord(epoch, at, operations, round(seconds, 3), refreshed, cut)
    return {EPOCHS.at(epoch_key(epoch)): record, **{EPOCHS.at(key): None for key in gone}}


def recent(store: Store) -> list[EpochRecord]:
    """The records of the last epochs, the newest first."""
    return [record for _, record in sorted(store.documents(EPOCHS).items(), reverse=True)]


def last_way(records: list[EpochRecord], view: str) -> dict[str, Any] | None:
    """How a view that has a choice was refreshed last: the epoch, what was done, and why."""
    for record in records:
        if view in record.refreshed:
            return {"epoch": record.epoch, **structs.asdict(record.refreshed[view])}
    return None
