"""Stored records of the last epochs: operations, duration, and how views were refreshed."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from typing import Any

from msgspec import structs

from tailrace.plan.policy import Way
from tailrace.store.base import Store
from tailrace.store.commits import EPOCHS, Committed, EpochRecord, Refreshed, epoch_key

HELD = 32  # number of records that are kept, or more if a pin needs older ones


def record_documents(
    store: Store,
    done: Committed,
    seconds: float,
    operations: int,
    ways: Mapping[str, Way],
    keep: int,
    failed: Collection[str],
) -> dict[str, Any]:
    """The documents that add the record of the epoch `done` and remove the oldest ones. Written in its commit.

    Records of epochs after `keep` always stay: a reader may follow the epochs from there. `failed` are the views that
    the epoch does not include.
    """
    epoch = done.epoch
    last_removed = epoch_key(min(epoch - HELD, keep))
    removed = [key for key in store.documents(EPOCHS) if key <= last_removed]
    refreshed = {name: Refreshed(way.taken, way.reason) for name, way in sorted(ways.items())}
    left_out = tuple(sorted(failed))
    record = EpochRecord(epoch, done.at, operations, round(seconds, 3), refreshed, done.cut, left_out, done.time)
    return {EPOCHS.at(epoch_key(epoch)): record, **{EPOCHS.at(key): None for key in removed}}


def recent(store: Store) -> list[EpochRecord]:
    """The records of the last epochs, newest first."""
    return [record for _, record in sorted(store.documents(EPOCHS).items(), reverse=True)]


def last_way(records: list[EpochRecord], view: str) -> dict[str, Any] | None:
    """How a recomputable view was last refreshed: the epoch, `taken` (deltas or recomputed), and the reason."""
    for record in records:
        if view in record.refreshed:
            return {"epoch": record.epoch, **structs.asdict(record.refreshed[view])}
    return None
