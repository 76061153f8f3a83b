"""Opens an embedded store for a database, and creates it if that is wanted."""

from __future__ import annotations

from pathlib import Path

from tailrace.store.lmdb import settings
from tailrace.store.lmdb.store import LmdbStore
from tailrace.store.requested import Requested
from tailrace.store.store_ref import StoreRef


def exists(ref: StoreRef) -> bool:
    return (Path(ref.location) / "store.json").exists()


def open_store(ref: StoreRef, requested: Requested, *, create: bool) -> LmdbStore:
    """The store in a directory. With `create`, it is first created if the directory is missing or empty."""
    directory = Path(ref.location)
    if create and settings.can_create(directory):
        settings.create(directory, settings.for_new_store(requested))
    else:
        settings.require(directory, requested)
    return LmdbStore(directory)
