"""Turns signals into stop requests, so that work ends between two units and not inside a call into Spark."""

from __future__ import annotations

import signal
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from types import FrameType


@dataclass
class Stopped:
    """Which signal, if any, has requested the stop."""

    by: signal.Signals | None = None


@contextmanager
def caught(request_stop: Callable[[], None], *numbers: signal.Signals) -> Iterator[Stopped]:
    """Calls `request_stop` for the first of these signals. A second one has the effect that it has outside the block.

    Does nothing outside the main thread, which gets all signals.
    """
    stopped = Stopped()
    if threading.current_thread() is not threading.main_thread():
        yield stopped
        return

    def on_signal(number: int, frame: FrameType | None) -> None:
        stopped.by = signal.Signals(number)
        for each, handler in old_handlers.items():
            signal.signal(each, handler)
        request_stop()

    old_handlers = {n: signal.getsignal(n) for n in numbers}
    try:
        for number in numbers:
            signal.signal(number, on_signal)
        yield stopped
    finally:
        for number, handler in old_handlers.items():
            signal.signal(number, handler)
