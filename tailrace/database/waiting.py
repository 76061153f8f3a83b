"""Chooses the epoch that a read of a view sees: the latest committed epoch, or the pinned epoch of a snapshot.

A write returns its position, the number of its transaction. An epoch covers all positions up to that of its cut.
"""

from __future__ import annotations

import time
from abc import ABC, abstractmethod
from typing import TypeAlias

from tailrace.catalog.failed import FAILED, view_failed
from tailrace.errors import Timeout
from tailrace.store.base import Cut, Position, Store, Written
from tailrace.store.commits import read_committed
from tailrace.store.pins import Pin

AtLeast: TypeAlias = int | Written | Position

PATIENCE = 30.0  # default timeout in seconds of a read that waits for a position
SHORTEST_PAUSE, LONGEST_PAUSE = 0.001, 0.02  # seconds between two polls of the committed epoch


class ReadEpoch(ABC):
    """Which epoch to read, and how to wait for one that covers a position."""

    @abstractmethod
    def epoch(self) -> int: ...

    @abstractmethod
    def wait(self, name: str, at_least: AtLeast | None, timeout: float | None, view: str | None = None) -> None:
        """Return when `epoch()` covers the position; raise `Timeout` after `timeout` seconds (None: wait forever).

        `name` is the view or epoch that the error message names. Raises `ViewFailed` at once if `view` has failed at a
        cut before the position.
        """


class LatestEpoch(ReadEpoch):
    """The committed epoch. It advances while epochs run."""

    def __init__(self, store: Store) -> None:
        self._store = store

    def epoch(self) -> int:
        return read_committed(self._store).epoch

    def wait(self, name: str, at_least: AtLeast | None, timeout: float | None, view: str | None = None) -> None:
        if at_least is None:
            return
        position = self._store.position(at_least)
        began, pause = time.monotonic(), SHORTEST_PAUSE
        while not (cut := read_committed(self._store).cut).covers(position):
            self._require_not_failed(view, position)
            waited = time.monotonic() - began
            if timeout is not None and waited >= timeout:
                raise _timeout_error(name, position, cut, waited, _advice(self._store))
            time.sleep(pause if timeout is None else min(pause, timeout - waited))
            pause = min(pause * 1.5, LONGEST_PAUSE)
        self._require_not_failed(view, position)

    def _require_not_failed(self, view: str | None, position: Position) -> None:
        failed = None if view is None else self._store.document(FAILED, view)
        if view is not None and failed is not None and not failed.cut.covers(position):
            raise view_failed(view, failed)


class PinnedEpoch(ReadEpoch):
    """The epoch of a snapshot. It never advances, so waiting for a later position fails at once."""

    def __init__(self, store: Store, pin: Pin) -> None:
        self._store, self._pin = store, pin

    def epoch(self) -> int:
        return self._pin.epoch

    def wait(self, name: str, at_least: AtLeast | None, timeout: float | None, view: str | None = None) -> None:
        if at_least is not None and not self._pin.cut.covers(position := self._store.position(at_least)):
            advice = "A snapshot does not advance; take a new one with db.snapshot(at_least=...)"
            raise _timeout_error(name, position, self._pin.cut, 0.0, advice)


def _timeout_error(name: str, position: Position, cut: Cut, waited: float, advice: str) -> Timeout:
    wanted, covered = position.number, cut.position.number
    return Timeout(
        name=name, wanted=wanted, covered=covered, behind=wanted - covered, waited=round(waited, 3), advice=advice
    )


def _advice(store: Store) -> str:
    runner = store.holder("runner")
    if runner is None:
        return "No process runs epochs; start `tailrace run`, or refresh"
    return (
        f"Process {runner.pid} ({runner.command}, since {runner.since}) runs epochs;"
        " wait longer (timeout=), or look at its lag with `tailrace status`"
    )
