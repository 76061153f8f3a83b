"""Measures time, percentiles and the memory of a process tree."""

from __future__ import annotations

import statistics
import threading
import time
from collections.abc import Callable
from typing import Any, TypeVar

import psutil

T = TypeVar("T")


def time_call(work: Callable[[], T]) -> tuple[float, T]:
    """Seconds that the call took, and its result."""
    began = time.perf_counter()
    result = work()
    return time.perf_counter() - began, result


def summarize(values: list[float]) -> dict[str, Any]:
    """The fields of a `Spread`, rounded for JSON."""
    return {
        "median": round(statistics.median(values), 4),
        "least": round(min(values), 4),
        "most": round(max(values), 4),
        "runs": len(values),
    }


def percentile(values: list[float], share: float) -> float:
    ordered = sorted(values)
    return ordered[min(len(ordered) - 1, int(share * len(ordered)))]


class Memory:
    """Peak private memory of this process and its descendants together, sampled every 50 ms.

    Private is resident minus shared: pages of the store's memory-mapped files do not count, because the system may
    drop them at any time.
    """

    def __enter__(self) -> Memory:
        self.peak = 0
        self._stop = threading.Event()
        self._thread = threading.Thread(target=self._sample, daemon=True)
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._stop.set()
        self._thread.join()

    def _sample(self) -> None:
        me = psutil.Process()
        while not self._stop.wait(0.05):
            self.peak = max(self.peak, sum(_private_bytes(p) for p in [me, *me.children(recursive=True)]))


def _private_bytes(process: psutil.Process) -> int:
    try:
        info = process.memory_info()
        return int(info.rss - info.shared)
    except (psutil.Error, AttributeError):
        return 0
