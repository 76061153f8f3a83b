"""Pins and holds keep an epoch readable: undo records after it and the logs after its cut are retained.

pin     for a reader: a lease (`leases.py`), which ends with its process
hold    for something stored, such as a view that failed: it lasts until it is removed
"""

from __future__ import annotations

import time
import uuid
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any, NamedTuple

from tailrace.store.base import Cut, Store
from tailrace.store.commits import read_committed
from tailrace.store.documents import Count, Document, Kind
from tailrace.store.leases import Lease, fresh_lease, renewing


class PinDocument(Lease, frozen=True, kw_only=True):
    """A pin as stored: a lease with its epoch, and the epoch's cut and time."""

    epoch: Count
    cut: Cut
    at: float
    time: Count = 0

    def fits(self, nodes: int) -> bool:
        return len(self.cut.offsets) == nodes


PINS: Kind[PinDocument] = Kind("pin:", PinDocument, expendable=True)


class Hold(Document, frozen=True):
    """An epoch and its cut that stay readable until the document is removed."""

    epoch: Count
    cut: Cut

    def fits(self, nodes: int) -> bool:
        return len(self.cut.offsets) == nodes


HOLDS: Kind[Hold] = Kind("hold:", Hold)


class Pin(NamedTuple):
    """An epoch with its cut and its time (microseconds since 1970)."""

    epoch: int
    cut: Cut
    time: int = 0


@contextmanager
def pinned(store: Store) -> Iterator[Pin]:
    """Keeps the committed epoch readable inside the block."""
    with following(store) as follower:
        yield follower.pin


@contextmanager
def following(store: Store) -> Iterator[Follower]:
    """A pin that its reader can move to later epochs. It starts at the committed epoch."""
    key = str(uuid.uuid4())
    try:
        pin = _pin(store, PINS.at(key))
        with renewing(store, PINS, key):
            yield Follower(store, key, pin)
    finally:
        store.change_documents({PINS.at(key): None})


class Follower:
    """A movable pin: its epoch and all later ones stay readable."""

    def __init__(self, store: Store, key: str, pin: Pin) -> None:
        self._store, self._key, self.pin = store, key, pin

    @property
    def is_held(self) -> bool:
        """Whether the pin still counts. Another process removes it if this one was suspended until it expired."""
        return self._store.document(PINS, self._key) is not None

    def move(self, pin: Pin) -> None:
        """Moves the pin to a later committed epoch. Earlier epochs may become unreadable."""
        self._store.change_documents({PINS.at(self._key): _document(pin)})
        self.pin = pin


def _pin(store: Store, name: str) -> Pin:
    while True:
        pin = committed_pin(store)
        store.change_documents({name: _document(pin)})
        # An epoch committed before the pin was stored may already have dropped what the pin needs: then pin again.
        if committed_pin(store).epoch == pin.epoch:
            return pin


def committed_pin(store: Store) -> Pin:
    """The committed epoch and its cut. This alone does not keep them readable."""
    committed = read_committed(store)
    return Pin(committed.epoch, committed.cut, committed.time)


def _document(pin: Pin) -> PinDocument:
    return PinDocument(epoch=pin.epoch, cut=pin.cut, time=pin.time, at=time.time(), **fresh_lease())  # type: ignore[arg-type]


def find_oldest_pin(store: Store) -> Pin | None:
    """The oldest pin of a live process, or an older hold. Removes pins of dead processes and expired ones."""
    held = (Pin(hold.epoch, hold.cut) for hold in store.documents(HOLDS).values())
    oldest: Pin | None = min(held, key=lambda pin: pin.epoch, default=None)
    for key, document in store.documents(PINS).items():
        if not document.is_alive:
            store.change_documents({PINS.at(key): None})
            continue
        pin = Pin(document.epoch, document.cut, document.time)
        oldest = pin if oldest is None or pin.epoch < oldest.epoch else oldest
    return oldest


def list_pins(store: Store) -> list[dict[str, Any]]:
    """All pins of live processes, oldest first, as `status` shows them."""
    alive = [p for p in store.documents(PINS).values() if p.is_alive]
    pins = ({"epoch": p.epoch, "position": p.cut.position.number, "pid": p.pid, "at": p.at} for p in alive)
    return sorted(pins, key=lambda pin: (pin["epoch"], pin["at"]))
