"""Units of figures, found in a result's `y` text: which figures may be compared, and how they are formatted."""

from __future__ import annotations

import math
import re
from dataclasses import dataclass


@dataclass(frozen=True)
class Unit:
    """A kind of quantity. `more_is_better` is None if a ratio of two figures has no meaning."""

    name: str
    more_is_better: bool | None

    def factor_to(self, y: str) -> float | None:
        """The factor from this unit (times are in seconds) to the unit of `y`. None if `y` has another unit."""
        return 1 / _time_unit_seconds(y) if self is unit_of(y) is TIME else 1.0 if self is unit_of(y) else None


OPERATIONS = Unit("operations/s", True)
VIEW_UPDATES = Unit("view updates/s", True)  # view rows computed and written
TIME = Unit("time", False)
OTHER = Unit("", None)

_RATE = re.compile(r"/\s*s\b|\bper second\b|\ba second\b", re.IGNORECASE)
_VIEW = re.compile(r"\bview\b|\bvu/s", re.IGNORECASE)
_TIMES = {"ms": 1e-3, "milliseconds": 1e-3, "µs": 1e-6, "microseconds": 1e-6, "s": 1.0, "seconds": 1.0}
_TIME = re.compile(r"\b(" + "|".join(sorted(_TIMES, key=len, reverse=True)) + r")\b")


def unit_of(y: str) -> Unit:
    """The unit named in `y`, such as "operations/s", "view rows per second", "seconds" or "latency (ms)"."""
    if _RATE.search(y):
        return VIEW_UPDATES if _VIEW.search(y) else OPERATIONS
    return TIME if _TIME.search(y) else OTHER


def _time_unit_seconds(y: str) -> float:
    name = _TIME.search(y)
    return _TIMES[name[1]] if name else 1.0


def format_figure(value: float, y: str = "") -> str:
    """A figure with its unit: 1.2 M/s, 340 k/s, 86 µs, 0.36 s, 0.63."""
    kind = unit_of(y)
    if kind is TIME:
        return _format_time(value * _time_unit_seconds(y))
    return format_number(value) + ("/s" if kind.name.endswith("/s") else "")


def format_tick(value: float, y: str) -> str:
    """A tick of an axis. A rate has no unit here, because the axis title names it."""
    return format_number(value) if value == 0 or unit_of(y) is not TIME else format_figure(value, y)


def format_number(value: float) -> str:
    """A number with up to three significant digits: 1.23 M, 340 k, 85, 0.63."""
    for size, sign in ((1e9, " G"), (1e6, " M"), (1e3, " k")):
        if abs(value) >= size * 0.9995:
            return f"{_format_digits(value / size)}{sign}"
    return _format_digits(value)


def _format_time(seconds: float) -> str:
    for size, sign in ((1.0, "s"), (1e-3, "ms"), (1e-6, "µs")):
        if abs(seconds) >= size * 0.9995:
            return f"{_format_digits(seconds / size)} {sign}"
    return f"{_format_digits(seconds * 1e6)} µs"


def _format_digits(value: float) -> str:
    """Three significant digits, without trailing zeros."""
    if value == 0 or not math.isfinite(value):
        return f"{value:g}"
    places = max(0, 2 - math.floor(math.log10(abs(value))))
    rounded = f"{value:.{places}f}"
    return rounded.rstrip("0").rstrip(".") if "." in rounded else rounded
