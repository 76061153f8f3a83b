"""Copies an embedded store while it is used, and unpacks the copy again.

    base.mdb           the LMDB environment of rows, logs and documents
    shard-000.mdb ...  one per shard

LMDB copies an environment in one read transaction, without its free pages. Writers continue meanwhile. The settings
(`store.json`) are in the manifest.
"""

from __future__ import annotations

import os
import shutil
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import lmdb
from msgspec import structs

from tailrace import faults
from tailrace.errors import BadBackup
from tailrace.store.backups import Backups
from tailrace.store.lmdb import private, settings
from tailrace.store.lmdb.environment import DATA, Environment, translate
from tailrace.store.lmdb.store import LmdbStore
from tailrace.store.manifest import NAME, Manifest, copy_checked
from tailrace.store.requested import Requested

_COPY = "store"  # the copy as a store, inside the directory of the backup, until it is packed


class LmdbBackups(Backups):
    def __init__(self, store: LmdbStore) -> None:
        self._store = store

    def copy(self, place: Path, on_copy: Callable[[str], None]) -> None:
        # Not durable: the copy is synced when it is complete.
        settings.create(place / _COPY, structs.replace(self._store.settings, durable=False))
        on_copy("tables")
        _copy_environment(self._store.environment, place / _COPY / "base")
        for index in range(self._store.shards):
            on_copy(f"shard {index + 1} of {self._store.shards}")
            environment = self._store.shard(index).environment
            _copy_environment(environment, place / _COPY / "shards" / f"{index:03d}")

    @contextmanager
    def opened(self, place: Path) -> Iterator[LmdbStore]:
        store = LmdbStore(place / _COPY)
        try:
            yield store
        finally:
            store.close()

    def pack(self, place: Path) -> list[str]:
        files = _files(self._store.shards)
        for name, environment in files.items():
            (place / _COPY / environment / DATA).rename(place / name)
        shutil.rmtree(place / _COPY)
        return list(files)

    @property
    def settings(self) -> Mapping[str, Any]:
        return structs.asdict(self._store.settings)


def unpack(
    directory: Path, manifest: Manifest, place: Path, requested: Requested, on_copy: Callable[[str], None]
) -> None:
    """Makes a store in an empty directory out of a backup. Raises `BadBackup` if a file is damaged."""
    try:
        made = settings.decode(directory, manifest.settings)
    except ValueError as error:
        reason = f"{NAME} is damaged: its part `settings` {error}"
        raise BadBackup(path=str(directory), reason=reason, file=NAME) from None
    files = _files(made.shards)
    if set(files) != set(manifest.files):
        reason = f"{NAME} is damaged: it must name the files {', '.join(files)}"
        raise BadBackup(path=str(directory), reason=reason, file=NAME)
    settings.create(place, settings.combine(directory, made, requested))
    for name, environment in files.items():
        on_copy(name)
        private.make_directory(place / environment)
        target = private.open_file(place / environment / DATA, os.O_WRONLY | os.O_CREAT)
        copy_checked(directory, name, manifest.files[name], target)
        faults.point("restore.copied")


def _files(shards: int) -> dict[str, str]:
    """The name of each file of a backup, with the directory of its environment in a store."""
    return {"base.mdb": "base", **{f"shard-{index:03d}.mdb": f"shards/{index:03d}" for index in range(shards)}}


def _copy_environment(environment: Environment, directory: Path) -> None:
    private.make_directory(directory)
    descriptor = private.open_file(directory / DATA, os.O_WRONLY | os.O_CREAT)
    try:
        environment.handle.copyfd(descriptor, compact=True)
    except (lmdb.Error, OSError) as error:
        raise translate(str(directory), error) from error
    finally:
        os.close(descriptor)
    faults.point("backup.copied")
