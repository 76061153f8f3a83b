"""The live part of the demo: a writer process and a reader process run while this process runs epochs.

Freshness is the time from the moment a write is durable to the commit of the epoch that covers it.
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
from tailrace.demo.writer import PATIENCE, WriteNote, write
from tailrace.epochs.model import Epoch
from tailrace.errors import EnvironmentFault


@dataclass(frozen=True)
class Applied:
    """An epoch, the time of its commit, and the lag of the views right after it."""

    epoch: Epoch
    at: float
    lag_operations: int
    lag_seconds: float


@dataclass(frozen=True)
class Measured:
    """The measurements of the stream."""

    epochs: list[Applied]
    writes: list[WriteNote]
    reads: list[float]
    seconds: float

    @property
    def operations(self) -> int:
        return sum(applied.epoch.operations for applied in self.epochs)

    @property
    def freshness(self) -> list[float]:
        """For each write that an epoch covers, the seconds until readers could see it."""
        cuts = [applied.epoch.cut.position.number for applied in self.epochs]
        seconds = []
        for note in self.writes:
            covering = bisect.bisect_left(cuts, note.transaction)
            if covering < len(cuts):
                seconds.append(max(0.0, self.epochs[covering].at - note.at))
        return seconds


def percentile(values: Sequence[float], part: float) -> float:
    """The smallest value that at least `part` of all values do not exceed; 0 if there are no values."""
    ordered = sorted(values)
    return ordered[min(len(ordered) - 1, int(part * len(ordered)))] if ordered else 0.0


def warm(db: Database) -> Epoch:
    """Runs the first epoch, over a few updates that change no keys."""
    for name, column in (("orders", "o_totalprice"), ("lineitem", "l_discount")):
        table = db.table(name)
        rows = next(table.batches()).slice(0, 100).select([*table.key, column]).to_pylist()
        table.update_many([{**row, column: row[column] + Decimal("0.01")} for row in rows])
    return db.refresh()


def stream(
    db: Database, files: dict[str, Path], seconds: float, rate: int, on_epoch: Callable[[Applied, float], None]
) -> Measured:
    """Runs epochs for some seconds while rows change. Calls `on_epoch` with each epoch and the seconds elapsed."""
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
        epochs = _run_epochs(db, began, seconds, on_epoch)
        stop.set()
        writes, reads = list(iter(lambda: notes.get(timeout=PATIENCE), None)), times.get(timeout=PATIENCE)
        _record_epoch(db, db.refresh(), epochs, began, on_epoch)
        return Measured(epochs, writes, reads, epochs[-1].at - began if epochs else 0.0)
    except queue.Empty:
        raise EnvironmentFault(message="the demo's writer or reader process died") from None
    finally:
        stop.set()
        for child in children:
            child.join(10)
            child.kill()


def _wait_for(ready: threading.Barrier) -> None:
    try:
        ready.wait(PATIENCE)
    except threading.BrokenBarrierError:
        raise EnvironmentFault(message="the demo's writer or reader process did not start") from None


def _run_epochs(
    db: Database, began: float, seconds: float, on_epoch: Callable[[Applied, float], None]
) -> list[Applied]:
    epochs: list[Applied] = []
    end = time.monotonic() + seconds
    stopped_by = db.run(
        interval=0.02,
        progress=lambda epoch: _record_epoch(db, epoch, epochs, began, on_epoch),
        until=lambda: time.monotonic() >= end,
    )
    if stopped_by is not None:
        raise KeyboardInterrupt
    return epochs


def _record_epoch(
    db: Database, epoch: Epoch, epochs: list[Applied], began: float, on_epoch: Callable[[Applied, float], None]
) -> None:
    if epoch.operations:
        status = db.status()
        epochs.append(Applied(epoch, status.committed_at or time.time(), status.lag_operations, status.lag_seconds))
        on_epoch(epochs[-1], time.time() - began)
