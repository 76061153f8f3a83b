"""The live part of the demo: a writer and a reader at work in processes of their own while epochs run here.

Freshness is the time from the moment a write was durable to the commit of the epoch that covers it: how
old the newest row missing from a view can be.
"""

from __future__ import annotations

import bisect
import multiprocessing
import queue
import threading
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from decimal import Decimal
from pathlib import Path

from tailrace.database.database import Database
from tailrace.demo.reader import read
from tailrace.demo.writer import PATIENCE, Noted, write
from tailrace.epochs.model import Epoch
from tailrace.errors import EnvironmentFault


@dataclass(frozen=True)
class Applied:
    """An epoch, when it was committed, and how far behind the views were right after it."""

    epoch: Epoch
    at: float
    lag_operations: int
    lag_seconds: float


@dataclass(frozen=True)
class Measured:
    """What the stream came to."""

    epochs: list[Applied]
    writes: list[Noted]
    reads: list[float]
    seconds: float

    @property
    def operations(self) -> int:
        return sum(applied.epoch.operations for applied in self.epochs)

    @property
    def freshness(self) -> list[float]:
        """For each write, the seconds until readers of the views could see it."""
        cuts = [applied.epoch.cut.transaction for applied in self.epochs]
        found = []
        for noted in self.writes:
            place = bisect.bisect_left(cuts, noted.transaction)
            if place < len(cuts):
                found.append(max(0.0, self.epochs[place].at - noted.at))
        return found


def percentile(values: Sequence[float], part: float) -> float:
    """The smallest value that at least `part` of all values do not exceed; 0 of none."""
    ordered = sorted(values)
    return ordered[min(len(ordered) - 1, int(part * len(ordered)))] if ordered else 0.0


def warm(db: Database) -> Epoch:
    """The first epoch, with a few changes that leave all keys as they are."""
    for name, column in (("orders", "o_totalprice"), ("lineitem", "l_discount")):
        table = db.table(name)
        some = next(table.batches()).slice(0, 100).select([*table.key, column]).to_pylist()
        table.update_many([{**row, column: row[column] + Decimal("0.01")} for row in some])
    return db.refresh()


def stream(
    db: Database, files: dict[str, Path], seconds: float, rate: int, tell: Callable[[Applied, float], None]
) -> Measured:
    """Keep the views fresh for some seconds while rows change; `tell` hears of each epoch, and when."""
    processes = multiprocessing.get_context("spawn")
    notes, times = processes.Queue(), processes.Queue()
    ready, stop = processes.Barrier(3), processes.Event()
    children = [
        processes.Process(target=write, args=(db.path, files, rate, notes, ready, stop), daemon=True),
        processes.Process(target=read, args=(db.path, files, times, ready, stop), daemon=True),
    ]
    for child in children:
        child.start()
    try:
        _wait_for(ready)
        began = time.time()
        epochs = _epochs(db, began, seconds, tell)
        stop.set()
        writes, reads = list(iter(lambda: notes.get(timeout=PATIENCE), None)), times.get(timeout=PATIENCE)
        _note(db, db.refresh(), epochs, began, tell)
        return Measured(epochs, writes, reads, epochs[-1].at - began if epochs else 0.0)
    except queue.Empty:
        raise EnvironmentFault(message="the demo's writer or reader died") from None
    finally:
        stop.set()
        for child in children:
            child.join(10)
            child.kill()


def _wait_for(ready: threading.Barrier) -> None:
    try:
        ready.wait(PATIENCE)
    except threading.BrokenBarrierError:
        raise EnvironmentFault(message="the demo's writer or reader did not start") from None


def _epochs(db: Database, began: float, seconds: float, tell: Callable[[Applied, float], None]) -> list[Applied]:
    epochs: list[Applied] = []
    end = time.monotonic() + seconds
    db.run(
        interval=0.02,
        progress=lambda epoch: _note(db, epoch, epochs, began, tell),
        until=lambda: time.monotonic() >= end,
    )
    return epochs


def _note(
    db: Database, epoch: Epoch, epochs: list[Applied], began: float, tell: Callable[[Applied, float], None]
) -> None:
    if epoch.operations:
        now = db.status()
        epochs.append(Applied(epoch, now.committed_at or time.time(), now.lag_operations, now.lag_seconds))
        tell(epochs[-1], time.time() - began)
