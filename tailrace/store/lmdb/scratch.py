"""Scratch stores: temporary stores with the tables of another store and their own, empty shards.

    <store>/scratch/<process id>-<uuid>/store.json, shards/     base → ../../base

Building states there does not make the store's own shards grow, and takes no lock on them.
"""

from __future__ import annotations

import os
import shutil
import uuid
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from tailrace.store.lmdb import settings
from tailrace.store.lmdb.store import LmdbStore
from tailrace.store.processes import pid_exists

DIRECTORY = "scratch"


@contextmanager
def scratch(store: LmdbStore) -> Iterator[LmdbStore]:
    """A scratch store for the duration of the block. Also removes scratch stores of dead processes."""
    _remove_abandoned(store)
    place = Path(store.path) / DIRECTORY / f"{os.getpid()}-{uuid.uuid4()}"
    place.parent.mkdir(mode=0o700, exist_ok=True)
    try:
        settings.create(place, store.settings)
        (place / "base").symlink_to(Path("..") / ".." / "base", target_is_directory=True)
        scratch_store = LmdbStore(place)
        try:
            yield scratch_store
        finally:
            scratch_store.close()
    finally:
        shutil.rmtree(place, ignore_errors=True)


def _remove_abandoned(store: LmdbStore) -> None:
    for place in (Path(store.path) / DIRECTORY).glob("*-*"):
        if not pid_exists(int(place.name.partition("-")[0])):
            shutil.rmtree(place, ignore_errors=True)
