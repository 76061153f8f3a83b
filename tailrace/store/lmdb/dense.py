"""Writes runs of entries into LMDB so that they fill its pages.

LMDB splits a full page in the middle, unless the new entry comes after all others of its page: then the page stays
full and the new entry begins the next one. Keys that grow, as most primary keys do, are inserted at the end of their
state or table. There they share a page with the first entries of the following one, so every page would be left half
full. Here those entries are taken out first and put back behind the new ones.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

MANY = 256  # entries of a run for which this is worth its cost
NEIGHBOURS = 160  # entries that are taken out: a page has hardly more


def put_sorted(cursor: Any, first: bytes, last: bytes, entries: Iterable[tuple[bytes, bytes]], count: int) -> None:
    """Puts sorted entries, the keys of which lie between `first` and `last`."""
    if not cursor.set_range(first):  # after all other keys
        cursor.putmulti(entries, append=True)
        return
    neighbours: list[tuple[bytes, bytes]] = []
    if count >= MANY and cursor.key() > last:  # into a gap
        while len(neighbours) < NEIGHBOURS and cursor.key():
            neighbours.append((bytes(cursor.key()), bytes(cursor.value())))
            cursor.delete()
    cursor.putmulti(entries)
    if neighbours:
        cursor.putmulti(neighbours)
