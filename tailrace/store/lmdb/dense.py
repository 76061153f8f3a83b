"""Writes runs of entries into LMDB so that they fill its pages.

LMDB splits a full page in the middle, unless the new entry comes after all others of its page: then the page stays
full and the new entry begins the next one. Keys that grow, as most primary keys do, are inserted at the end of their
state or table. There they share a page with the first entries of the following one, so every page would be left half
full. Here those entries are taken out first and put back behind the new ones.

Where a page ends cannot be seen. If little of the last page is left behind, LMDB moves entries between it and the page
before, and both are on one page again. So a run is put in parts, and if a part took too many pages, more is taken out.
"""

from __future__ import annotations

from collections.abc import Iterable
from itertools import islice
from typing import Any

MANY = 256  # entries of a run for which this is worth its cost
NEIGHBOURS = 160  # entries that are taken out at a time: a page has hardly more
PART = 512  # entries that are put at a time
PAGE = 4096
SPARSE = 1.5  # pages that a part takes, compared with its bytes, if pages are split in the middle
_HEADER = 10  # bytes that LMDB adds to an entry

Entry = tuple[bytes, bytes]


def put_sorted(txn: Any, db: Any, first: bytes, last: bytes, entries: Iterable[Entry], count: int) -> None:
    """Puts sorted entries, the keys of which lie between `first` and `last`."""
    with txn.cursor(db) as cursor:
        if not cursor.set_range(first):  # after all other keys
            cursor.putmulti(entries, append=True)
        elif count >= MANY and cursor.key() > last:  # into a gap
            _fill_gap(txn, db, cursor, iter(entries))
        else:
            cursor.putmulti(entries)


def _fill_gap(txn: Any, db: Any, cursor: Any, entries: Iterable[Entry]) -> None:
    neighbours: list[Entry] = []
    is_sparse = True
    while part := list(islice(entries, PART)):
        if is_sparse and cursor.set_range(part[-1][0]):
            neighbours += _take_out(cursor)
        before = txn.stat(db)["leaf_pages"]
        cursor.putmulti(part)
        size = sum(len(key) + len(value) + _HEADER for key, value in part)
        is_sparse = txn.stat(db)["leaf_pages"] - before > SPARSE * size / PAGE
    cursor.putmulti(neighbours)


def _take_out(cursor: Any) -> list[Entry]:
    """Deletes the next entries, and returns them."""
    taken: list[Entry] = []
    while len(taken) < NEIGHBOURS and cursor.key():
        taken.append((bytes(cursor.key()), bytes(cursor.value())))
        cursor.delete()
    return taken
