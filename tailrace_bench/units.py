"""Units, as they stand in what a result measures: which figures may be compared, and how they are written."""

from __future__ import annotations

import math
import re
from dataclasses import dataclass


@dataclass(frozen=True)
class Unit:
    """A kind of quantity. `more_is_better` is None where a ratio of two would say nothing."""

    name: str
    more_is_better: bool | None

    def factor(self, y: str) -> float | None:
        """What turns figures of this unit into those of a result that measures `y`; None if it measures another."""
        return 1 / _seconds(y) if self is unit(y) is TIME else 1.0 if self is unit(y) else None


OPERATIONS = Unit("operations/s", True)
VIEW_UPDATES = Unit("view updates/s", True)  # rows of views that are computed and written
TIME = Unit("time", False)
OTHER = Unit("", None)

_RATE = re.compile(r"/\s*s\b|\bper second\b|\ba second\b", re.IGNORECASE)
_VIEW = re.compile(r"\bview\b|\bvu/s", re.IGNORECASE)
_TIMES = {"ms": 1e-3, "milliseconds": 1e-3, "µs": 1e-6, "microseconds": 1e-6, "s": 1.0, "seconds": 1.0}
_TIME = re.compile(r"\b(" + "|".join(sorted(_TIMES, key=len, reverse=True)) + r")\b")


def unit(y: str) -> Unit:
    """The unit in what a result measures: "operations/s", "view rows per second", "seconds", "latency (ms)"."""
    if _RATE.search(y):
        return VIEW_UPDATES if _VIEW.search(y) else OPERATIONS
    return TIME if _TIME.search(y) else OTHER


def _seconds(y: str) -> float:
    found = _TIME.search(y)
    return _TIMES[found[1]] if found else 1.0


def written(value: float, y: str = "") -> str:
    """A figure as people read it: 1.2 M/s, 340 k/s, 86 µs, 0.36 s, 0.63."""
    kind = unit(y)
    if kind is TIME:
        return _time(value * _seconds(y))
    return plain(value) + ("/s" if kind.name.endswith("/s") else "")


def ticked(value: float, y: str) -> str:
    """A figure beside an axis, which names a rate's unit itself."""
    return plain(value) if value == 0 or unit(y) is not TIME else written(value, y)


def plain(value: float) -> str:
    """A number in two or three digits: 1.23 M, 340 k, 85, 0.63."""
    for size, sign in ((1e9, " G"), (1e6, " M"), (1e3, " k")):
        if abs(value) >= size * 0.9995:
            return f"{_digits(value / size)}{sign}"
    return _digits(value)


def _time(seconds: float) -> str:
    for size, sign in ((1.0, "s"), (1e-3, "ms"), (1e-6, "µs")):
        if abs(seconds) >= size * 0.9995:
            return f"{_digits(seconds / size)} {sign}"
    return f"{_digits(seconds * 1e6)} µs"


def _digits(value: float) -> str:
    """Three significant digits, without zeros that say nothing."""
    if value == 0 or not math.isfinite(value):
        return f"{value:g}"
    places = max(0, 2 - math.floor(math.log10(abs(value))))
    rounded = f"{value:.{places}f}"
    return rounded.rstrip("0").rstrip(".") if "." in rounded else rounded
