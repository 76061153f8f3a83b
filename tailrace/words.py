"""Numbers and lists in messages for people."""

from __future__ import annotations

from collections.abc import Sequence

_BYTES = ("bytes", "KiB", "MiB", "GiB", "TiB")


def count(number: int, noun: str, plural: str | None = None) -> str:
    """`1 row`, `2 rows`, `1,000 rows`; `plural` is for nouns that do not take an s."""
    return f"{number:,} {noun if number == 1 else plural or noun + 's'}"


def shorten(names: Sequence[str], most: int = 6) -> str:
    """A list of names; of a long one the first names, and how many others there are."""
    if len(names) <= most + 1:
        return ", ".join(names)
    return f"{', '.join(names[:most])} and {count(len(names) - most, 'other')}"


def size(number: float) -> str:
    """A number of bytes in three digits: `812 bytes`, `1.21 MiB`."""
    for unit in _BYTES:
        if number < 999.5 or unit == _BYTES[-1]:
            break
        number /= 1024
    if unit == "bytes":
        return count(int(number), "byte")
    return f"{number:.3g} {unit}" if number < 999.5 else f"{number:,.0f} {unit}"
