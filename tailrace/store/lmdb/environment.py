"""Opens LMDB environments, at most once per process, and translates LMDB errors into Tailrace errors.

Opening an environment twice in one process breaks LMDB's file locks, so this module keeps the only table of open
environments. It is keyed by the data file, not by its path: a restored store is renamed while workers have it open.
A forked child must not use its parent's environments, so the key also has the process id.
"""

from __future__ import annotations

import os
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import lmdb

from tailrace.errors import Closed, Corrupt, NewerFormat, NotAStore, StoreError, StoreFull
from tailrace.store.disk_errors import FORBIDDEN, FULL, full_disk, is_full, read_only
from tailrace.store.lmdb import private

DATA = "data.mdb"  # the file of an environment that holds everything but its locks
MAX_READERS = 2048  # one slot per reading thread, shared by all processes that use the store


def _full_map(path: str, error: Exception) -> StoreError:
    advice = (
        "Close the store in all processes, open it with a larger map_size (tailrace.open(directory, map_size=...)),"
        " and write again"
    )
    return StoreFull(path=path, full="map", reason="its files have reached map_size", advice=advice)


def _full_disk(path: str, error: Exception) -> StoreError:
    return full_disk(path)


def _corrupt(path: str, error: Exception) -> StoreError:
    return Corrupt(where=path, reason=str(error))


def _read_only(path: str, error: Exception) -> StoreError:
    return read_only(path, str(error.strerror) if isinstance(error, OSError) else str(error))


def _panic(path: str, error: Exception) -> StoreError:
    return StoreError(message=f"{path}: a disk error interrupted a commit. Restart this process")


def _newer(path: str, error: Exception) -> StoreError:
    text = f"{path} has a file format that the installed LMDB cannot read ({error}). Upgrade the Python package lmdb"
    return NewerFormat(path=path, found=str(error), known=f"LMDB {'.'.join(map(str, lmdb.version()))}", text=text)


def _other(path: str, error: Exception) -> StoreError:
    code = error.errno if isinstance(error, OSError) else getattr(error, "code", None)
    if is_full(path, code):
        return _full_disk(path, error)
    if code in FORBIDDEN:
        return _read_only(path, error)
    return StoreError(message=f"{path}: {error}")


def gone(store: str) -> NotAStore:
    """The error of a store whose directory has disappeared while this process used it."""
    reason = "it was moved or deleted while in use"
    advice = "Stop all processes that use a store before you move it, then start them with the new path"
    return NotAStore(path=store, reason=reason, text=f"the store {store} is gone: {reason}. {advice}")


TRANSLATIONS: dict[type[Exception], Callable[[str, Exception], StoreError]] = {
    lmdb.MapFullError: _full_map,
    lmdb.DiskError: _full_disk,
    lmdb.BadChecksumError: _corrupt,
    lmdb.CorruptedError: _corrupt,
    lmdb.PageNotFoundError: _corrupt,
    lmdb.InvalidError: _corrupt,
    lmdb.PanicError: _panic,
    lmdb.ReadonlyError: _read_only,
    lmdb.VersionMismatchError: _newer,
    lmdb.Error: _other,
}


def translate(path: str, error: Exception) -> StoreError:
    """The Tailrace error for an LMDB or OS error. The most specific class in `TRANSLATIONS` decides."""
    for kind in type(error).__mro__:
        if kind in TRANSLATIONS:
            return TRANSLATIONS[kind](path, error)
    return _other(path, error)


@dataclass
class Environment:
    """An open LMDB environment with its named databases."""

    store: str  # the store's path
    path: str
    handle: lmdb.Environment
    databases: dict[str, Any]  # LMDB's handle of each database, by name
    users: int = 0
    closed: bool = field(default=False)

    @contextmanager
    def read(self, *, views: bool = False) -> Iterator[Any]:
        """A read transaction. Values are bytes, or with `views` memoryviews that are valid only inside the block."""
        if self.closed:
            raise Closed(path=self.store)
        try:
            with self.handle.begin(buffers=True) if views else self.handle.begin() as txn:
                yield txn
        except lmdb.Error as error:
            raise translate(self.path, error) from error

    @contextmanager
    def write(self) -> Iterator[Any]:
        """A write transaction: commits when the block ends, aborts if it raises."""
        if self.closed:
            raise Closed(path=self.store)
        try:
            with self.handle.begin(write=True) as txn:
                yield txn
        except lmdb.Error as error:
            raise translate(self.path, error) from error
        except OSError as error:
            if error.errno in FULL:
                raise _full_disk(self.path, error) from error
            raise


_Key = tuple[int, int, int]  # process id; device and inode of the data file
_open: dict[_Key, Environment] = {}
_guard = threading.Lock()


def _key(path: Path) -> _Key | None:
    """Identifies the environment at a path; None if it does not exist yet."""
    try:
        stat = os.stat(path / DATA)
    except OSError:
        return None
    return os.getpid(), stat.st_dev, stat.st_ino


def acquire(store: str, path: Path, names: tuple[str, ...], map_size: int, durable: bool) -> Environment:
    """The process's only environment at `path`, opened if necessary. The caller must `release` it.

    `store` is the path of the store that the environment belongs to. Raises `NotAStore` if it has disappeared: parts
    of it must not be made again at that path.
    """
    with _guard:
        key = _key(path)
        env = None if key is None else _open.get(key)
        if env is None:
            if not os.path.isdir(store):
                raise gone(store)
            try:
                is_new = private.make_directory(path)
                handle = lmdb.open(
                    str(path),
                    map_size=map_size,
                    max_dbs=len(names),
                    max_readers=MAX_READERS,
                    sync=durable,
                    metasync=durable,
                    readahead=True,
                    mode=private.FILE,
                )
                if is_new:
                    private.restrict(path / DATA, path / "lock.mdb")
                handle.reader_check()
                env = Environment(store, str(path), handle, {n: handle.open_db(n.encode()) for n in names})
            except (lmdb.Error, OSError) as error:
                raise translate(str(path), error) from error
            if (key := _key(path)) is not None:
                _open[key] = env
        env.users += 1
        return env


def release(env: Environment) -> None:
    """Closes the environment when this process no longer uses it."""
    with _guard:
        env.users -= 1
        if env.users <= 0 and not env.closed:
            env.closed = True
            env.handle.close()
            for key, open_env in list(_open.items()):
                if open_env is env:
                    del _open[key]
