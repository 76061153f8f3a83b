"""Signals as requests: work in pieces ends after the piece under way, not in the middle of a call into Spark."""

from __future__ import annotations

import signal
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager


@contextmanager
def caught(ask: Callable[[], None], *numbers: signal.Signals) -> Iterator[None]:
    """Turn signals into calls of `ask`, where signals can be had: in the main thread."""
    if threading.current_thread() is not threading.main_thread():
        yield
        return
    before = {n: signal.signal(n, lambda *_: ask()) for n in numbers}
    try:
        yield
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)
