"""Committed epochs as the store remembers them: the cut that each stands for.

The last ones are kept, and those after the oldest pinned epoch, so that whoever follows the epochs from a pin
finds the cut of every one of them.
"""

from __future__ import annotations

from dataclasses import dataclass

from tailrace.store.base import Cut, Store

PREFIX = "epoch:"


@dataclass(frozen=True)
class Committed:
    """The epoch readers see, and the cut it stands for."""

    epoch: int
    cut: Cut
    at: float


def committed(store: Store) -> Committed:
    found = store.document("committed")
    if found is None:
        return Committed(0, Cut(0, (0,) * store.nodes), 0.0)
    return Committed(found["epoch"], Cut.from_json(found["cut"]), found["at"])


def name_of(epoch: int) -> str:
    """The name of an epoch's document; names sort as epochs do."""
    return f"{PREFIX}{epoch:016d}"


def cut_of(store: Store, epoch: int) -> Cut | None:
    """The cut at which an epoch was committed; None if that is no longer (or not yet) known."""
    found = store.document(name_of(epoch)) or {}
    return Cut.from_json(found["cut"]) if "cut" in found else None
