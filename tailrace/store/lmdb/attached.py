"""Opens stores in Spark workers: once per process, kept open for later tasks."""

from __future__ import annotations

import os
import socket
from collections import OrderedDict
from pathlib import Path

from tailrace.errors import StoreElsewhere
from tailrace.store.lmdb.environment import gone
from tailrace.store.lmdb.store import LmdbStore
from tailrace.store.processes import this_machine
from tailrace.store.store_ref import StoreRef

MAX_OPEN = 4  # stores that a worker keeps open; each reserves address space for its memory maps

_Identity = tuple[int, str, int, int]  # process id, path, and inode and modification time of store.json
_attached: OrderedDict[_Identity, LmdbStore] = OrderedDict()  # least recently used first


def attach(ref: StoreRef) -> LmdbStore:
    """The store at a reference. Raises `StoreElsewhere` on another machine, `NotAStore` if the store has disappeared.

    Unsafe on another machine, even if the directory is on a shared disk: LMDB's locks are in the memory of one machine.
    """
    path = ref.location
    if ref.machine not in (None, this_machine()):
        raise StoreElsewhere(path=path, host=socket.gethostname())
    try:
        stat = os.stat(Path(path) / "store.json")  # tells it from an earlier store at the same path
    except FileNotFoundError:
        raise gone(path) from None
    identity = (os.getpid(), path, stat.st_ino, stat.st_mtime_ns)
    if identity not in _attached:
        for replaced in [i for i in _attached if i[:2] == identity[:2]]:
            _attached.pop(replaced).close()
        _attached[identity] = LmdbStore(Path(path))
    _attached.move_to_end(identity)
    while len(_attached) > MAX_OPEN:
        oldest, store = _attached.popitem(last=False)
        if oldest[0] == os.getpid():
            store.close()
    return _attached[identity]
