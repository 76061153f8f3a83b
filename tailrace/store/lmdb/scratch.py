"""A scratch store: the tables of a store, and shards of its own that are empty.

    <store>/scratch/<process>-<number>/store.json, shards/     base → ../../base

What is built there costs the store's own shards nothing: they do not grow, and nobody waits for their locks.
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
    """A scratch store for the time of the block; those that dead processes left are removed."""
    clear(store)
    place = Path(store.path) / DIRECTORY / f"{os.getpid()}-{uuid.uuid4()}"
    place.parent.mkdir(mode=0o700, exist_ok=True)
    try:
        settings.create(place, store.settings)
        (place / "base").symlink_to(Path("..") / ".." / "base", target_is_directory=True)
        beside = LmdbStore(place)
        try:
            yield beside
        finally:
            beside.close()
    finally:
        shutil.rmtree(place, ignore_errors=True)


def clear(store: LmdbStore) -> None:
    for place in (Path(store.path) / DIRECTORY).glob("*-*"):
        if not pid_exists(int(place.name.partition("-")[0])):
            shutil.rmtree(place, ignore_errors=True)
