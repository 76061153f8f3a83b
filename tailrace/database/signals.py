"""Turns signals into stop requests, so that work ends between two units and not inside a call into Spark."""

from __future__ import annotations

import signal
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager


@contextmanager
def caught(request_stop: Callable[[], None], *numbers: signal.Signals) -> Iterator[None]:
    """Call `request_stop` for each of these signals. Does nothing outside the main thread, which gets all signals."""
    if threading.current_thread() is not threading.main_thread():
        yield
        return
    old_handlers = {n: signal.signal(n, lambda *_: request_stop()) for n in numbers}
    try:
        yield
    finally:
        for number, handler in old_handlers.items():
            signal.signal(number, handler)
