"""The epoch that reads of views are at: the committed one, which moves, or a pinned one, which does not.

A write returns its position, the number of its transaction. An epoch covers all positions up to its cut's.
"""

from __future__ import annotations

import time
from abc import ABC, abstractmethod
from typing import TypeAlias

from tailrace.errors import BadPosition, Timeout
from tailrace.store.base import Store, Written
from tailrace.store.commits import committed
from tailrace.store.pins import Pin

Position: TypeAlias = int | Written

PATIENCE = 30.0  # seconds that a read waits for a position unless told otherwise
SHORTEST, LONGEST = 0.001, 0.02  # seconds between two looks at the committed epoch


class Moment(ABC):
    """Which epoch to read, and how to wait for one that covers a position."""

    @abstractmethod
    def epoch(self) -> int: ...

    @abstractmethod
    def wait(self, name: str, position: Position | None, timeout: float | None) -> None:
        """Return when `epoch()` covers a position; `Timeout` when it does not in time (None: for ever)."""


class Latest(Moment):
    """The committed epoch, whichever that is when one reads."""

    def __init__(self, store: Store) -> None:
        self._store = store

    def epoch(self) -> int:
        return committed(self._store).epoch

    def wait(self, name: str, position: Position | None, timeout: float | None) -> None:
        if position is None:
            return
        wanted = _number(self._store, position)
        began, pause = time.monotonic(), SHORTEST
        while (covered := committed(self._store).cut.transaction) < wanted:
            waited = time.monotonic() - began
            if timeout is not None and waited >= timeout:
                raise late(name, wanted, covered, waited, _advice(self._store))
            time.sleep(pause if timeout is None else min(pause, timeout - waited))
            pause = min(pause * 1.5, LONGEST)


class Fixed(Moment):
    """A pinned epoch: what it does not cover it never will."""

    def __init__(self, store: Store, pin: Pin) -> None:
        self._store, self._pin = store, pin

    def epoch(self) -> int:
        return self._pin.epoch

    def wait(self, name: str, position: Position | None, timeout: float | None) -> None:
        if position is not None and (wanted := _number(self._store, position)) > self._pin.cut.transaction:
            advice = "a snapshot stays where it is: take one with snapshot(at_least=...)"
            raise late(name, wanted, self._pin.cut.transaction, 0.0, advice)


def _number(store: Store, position: Position) -> int:
    number = position.transaction if isinstance(position, Written) else position
    newest = store.newest_cut().transaction
    if not isinstance(number, int) or not 0 <= number <= newest:
        raise BadPosition(position=number, newest=newest)
    return number


def late(name: str, wanted: int, covered: int, waited: float, advice: str) -> Timeout:
    return Timeout(
        name=name, wanted=wanted, covered=covered, behind=wanted - covered, waited=round(waited, 3), advice=advice
    )


def _advice(store: Store) -> str:
    runner = store.holder("runner")
    if runner is None:
        return "nobody runs epochs: start `tailrace run`, or refresh"
    return f"epochs are run by process {runner.pid} ({runner.command}, since {runner.since})"
