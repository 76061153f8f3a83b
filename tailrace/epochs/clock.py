"""The clock of epochs. The time of an epoch is what `now()` is in views."""

from __future__ import annotations

import time
from collections.abc import Callable

Clock = Callable[[], int]


def wall_clock() -> int:
    """Microseconds since 1970."""
    return time.time_ns() // 1_000
