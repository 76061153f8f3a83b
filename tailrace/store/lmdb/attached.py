"""Stores that a Spark worker has open: each is opened once in a process and kept for the next task."""

from __future__ import annotations

import os
from collections import OrderedDict
from pathlib import Path

from tailrace.store.lmdb.store import LmdbStore
from tailrace.store.reference import StoreRef

KEPT = 4  # stores that a worker keeps open; each reserves address space for its memory maps

_Mark = tuple[int, str, int, int]
_attached: OrderedDict[_Mark, LmdbStore] = OrderedDict()


def attach(ref: StoreRef) -> LmdbStore:
    """The store at a reference."""
    path = ref.location
    made = os.stat(Path(path) / "store.json")  # another store may have been made at the same path
    mark = (os.getpid(), path, made.st_ino, made.st_mtime_ns)
    if mark not in _attached:
        for other in [m for m in _attached if m[:2] == mark[:2]]:
            _attached.pop(other).close()
        _attached[mark] = LmdbStore(Path(path))
    _attached.move_to_end(mark)
    while len(_attached) > KEPT:
        oldest, store = _attached.popitem(last=False)
        if oldest[0] == os.getpid():
            store.close()
    return _attached[mark]
