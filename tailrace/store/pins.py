"""Pins: readers that need an epoch to stay readable for a while.

A pin is a lease (`leases.py`) that names an epoch and its cut. While the lease lasts, undo records after that epoch and
the log after that cut are kept.
"""

from __future__ import annotations

import time
import uuid
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any, NamedTuple

from tailrace.store.base import Cut, Store
from tailrace.store.commits import read_committed
from tailrace.store.documents import Count, Kind
from tailrace.store.leases import Lease, fresh_lease, renewing


class PinDocument(Lease, frozen=True, kw_only=True):
    """An epoch that a process reads, for as long as its lease lasts."""

    epoch: Count
    cut: Cut
    at: float

    def fits(self, nodes: int) -> bool:
        return len(self.cut.offsets) == nodes


PINS: Kind[PinDocument] = Kind("pin:", PinDocument, expendable=True)


class Pin(NamedTuple):
    epoch: int
    cut: Cut


@contextmanager
def pinned(store: Store) -> Iterator[Pin]:
    """Keep the committed epoch readable inside the block."""
    with following(store) as follower:
        yield follower.pin


@contextmanager
def following(store: Store) -> Iterator[Follower]:
    """Keep an epoch readable that moves on when the one who reads says so, the committed one at first."""
    key = str(uuid.uuid4())
    try:
        pin = _pin(store, PINS.at(key))
        with renewing(store, PINS, key):
            yield Follower(store, PINS.at(key), pin)
    finally:
        store.change_documents({PINS.at(key): None})


class Follower:
    """A pin that its reader moves: all epochs after it stay readable until then."""

    def __init__(self, store: Store, name: str, pin: Pin) -> None:
        self._store, self._name, self.pin = store, name, pin

    def move(self, pin: Pin) -> None:
        """Let go of everything before a later, committed epoch."""
        self._store.change_documents({self._name: _note(pin)})
        self.pin = pin


def _pin(store: Store, name: str) -> Pin:
    while True:
        found = committed_pin(store)
        store.change_documents({name: _note(found)})
        # an epoch may have been committed before the pin stood: then what it needs may be gone already
        if committed_pin(store).epoch == found.epoch:
            return found


def committed_pin(store: Store) -> Pin:
    """The committed epoch and its cut, pinned by nobody."""
    done = read_committed(store)
    return Pin(done.epoch, done.cut)


def _note(pin: Pin) -> PinDocument:
    return PinDocument(epoch=pin.epoch, cut=pin.cut, at=time.time(), **fresh_lease())  # type: ignore[arg-type]


def find_oldest_pin(store: Store) -> Pin | None:
    """The oldest epoch a living reader needs; pins of dead processes are removed."""
    oldest: Pin | None = None
    for key, note in store.documents(PINS).items():
        if not note.is_alive:
            store.change_documents({PINS.at(key): None})
            continue
        pin = Pin(note.epoch, note.cut)
        oldest = pin if oldest is None or pin.epoch < oldest.epoch else oldest
    return oldest


def list_pins(store: Store) -> list[dict[str, Any]]:
    """What is kept for whom: all pins of living processes, the oldest first."""
    notes = [n for n in store.documents(PINS).values() if n.is_alive]
    listed = ({"epoch": n.epoch, "position": n.cut.position.number, "pid": n.pid, "at": n.at} for n in notes)
    return sorted(listed, key=lambda note: (note["epoch"], note["at"]))
