"""Random conditions on the time, and the clock of a scenario, which jumps from epoch to epoch."""

from __future__ import annotations

import random
from datetime import UTC, datetime

from tailrace_fuzz.features import Features
from tailrace_fuzz.sources import Source

_START = int(datetime(2026, 1, 29, tzinfo=UTC).timestamp() * 1_000_000)  # the times of rows are near it
_HOUR = 3_600_000_000
_FORMS = (
    "{0} > now() - INTERVAL {1} HOURS",
    "{0} + INTERVAL {1} HOURS >= current_timestamp()",
    "now() >= {0}",
    "{0} BETWEEN now() - INTERVAL {1} HOURS AND now()",
    "NOT ({0} <= current_date())",
    "{0} < current_date() + {1}",
    "now() - {0} <= INTERVAL {1} HOURS",
    "{0} >= date_trunc('DAY', now())",
)


def time_condition(source: Source, features: Features) -> str | None:
    """A comparison of a column with the time, or None.

    The random numbers depend on the source only: a seed gives the same queries apart from these conditions.
    """
    rng = random.Random(f"time {source.sql}")
    times = [r for r in source.refs if r.kind in ("ts", "date", "ntz") and r.grade < 2]
    if not times or not features.on(rng, "time", 0.15):
        return None
    return rng.choice(_FORMS).format(rng.choice(times).sql, rng.choice([1, 12, 24, 40]))


def time_of_epoch(number: int) -> int:
    """The time of a scenario's epoch, in microseconds since 1970: often just before, at or after a full hour."""
    rng = random.Random(f"clock {number}")
    return _START + number * 9 * _HOUR + rng.choice([-1, 0, 0, 1, rng.randrange(_HOUR)])
