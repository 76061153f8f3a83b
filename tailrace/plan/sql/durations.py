"""Lengths of time in SQL: '10 minutes', '1 hour 30 minutes'. Months and years have no fixed length."""

from __future__ import annotations

import re

SECOND, DAY = 1_000_000, 86_400_000_000  # in microseconds
UNITS = {
    "microsecond": 1, "millisecond": 1_000, "second": SECOND, "minute": 60 * SECOND, "hour": 3_600 * SECOND,
    "day": DAY, "week": 7 * DAY,
}  # fmt: skip
_TEXT = re.compile(r"\s*(?:interval\s+)?((?:[+-]?\d+\s+[a-z]+\s*)+)", re.I)
_WHOLE = re.compile(r"[+-]?\d+")


def interval_micros(amount: str, unit: str) -> int | None:
    """The microseconds of `amount` units of time, such as 10 minutes; None if the unit has no fixed length."""
    unit = unit.lower().removesuffix("s")
    whole, _, fraction = amount.partition(".")
    if unit not in UNITS or not _WHOLE.fullmatch(whole) or (fraction and unit != "second"):
        return None
    if not fraction:
        return int(whole) * UNITS[unit]
    if not re.fullmatch(r"\d{1,6}", fraction):
        return None
    micros = abs(int(whole)) * SECOND + int(fraction.ljust(6, "0"))
    return -micros if whole.startswith("-") else micros


def duration_micros(text: str) -> int | None:
    """The microseconds of '10 minutes' or '1 hour 30 minutes'; None if the text is not such a duration."""
    match = _TEXT.fullmatch(text)
    words = match[1].split() if match else []
    parts = [interval_micros(amount, unit) for amount, unit in zip(words[::2], words[1::2], strict=True)]
    known = [part for part in parts if part is not None]
    return sum(known) if parts and len(known) == len(parts) else None
