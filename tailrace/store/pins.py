"""Pins: readers that need an epoch to stay readable for a while.

A pin is a document that names an epoch, its cut and the process that reads there. While it stands, undo
records after that epoch and the log after that cut are kept. A pin whose process is gone counts no more.
"""

from __future__ import annotations

import time
import uuid
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any, NamedTuple

from tailrace.store.base import Cut, Store
from tailrace.store.processes import lives, me

_PREFIX = "pin:"


class Pin(NamedTuple):
    epoch: int
    cut: Cut


@contextmanager
def pinned(store: Store) -> Iterator[Pin]:
    """Keep the committed epoch readable inside the block."""
    name = f"{_PREFIX}{uuid.uuid4()}"
    try:
        yield _pin(store, name)
    finally:
        store.change_documents({name: None})


def _pin(store: Store, name: str) -> Pin:
    while True:
        found = store.document("committed") or {"epoch": 0, "cut": [0, [0] * store.nodes]}
        pin = Pin(found["epoch"], Cut.from_json(found["cut"]))
        note = {"epoch": pin.epoch, "cut": found["cut"], "at": time.time(), **me()}
        store.change_documents({name: note})
        # an epoch may have been committed before the pin stood: then what it needs may be gone already
        if (store.document("committed") or found)["epoch"] == pin.epoch:
            return pin


def oldest_pinned(store: Store) -> Pin | None:
    """The oldest epoch a living reader needs; pins of dead processes are removed."""
    oldest: Pin | None = None
    for name, note in store.documents(_PREFIX).items():
        if not lives(note):
            store.change_documents({name: None})
            continue
        pin = Pin(note["epoch"], Cut.from_json(note["cut"]))
        oldest = pin if oldest is None or pin.epoch < oldest.epoch else oldest
    return oldest


def standing(store: Store) -> list[dict[str, Any]]:
    """What is kept for whom: all pins of living processes, the oldest first."""
    notes = [note for note in store.documents(_PREFIX).values() if lives(note)]
    listed = ({"epoch": n["epoch"], "position": n["cut"][0], "pid": n["pid"], "at": n["at"]} for n in notes)
    return sorted(listed, key=lambda note: (note["epoch"], note["at"]))
