"""Directories that appear whole or not at all: written under a temporary name and renamed at the end.

    .<name>.<random>.draft     beside the directory <name>, locked by the process that writes it

A killed process leaves its draft behind. The next one that writes the same directory removes it.
"""

from __future__ import annotations

import fcntl
import os
import shutil
import uuid
from collections.abc import Iterator
from contextlib import contextmanager
from glob import escape
from pathlib import Path

from tailrace.errors import StoreError

_SUFFIX = ".draft"


@contextmanager
def draft(target: Path) -> Iterator[Path]:
    """An empty private directory that becomes `target` when the block ends. It is removed if the block raises.

    Raises `StoreError` if `target` exists and is not an empty directory.
    """
    require_free(target)
    target.parent.mkdir(parents=True, exist_ok=True)
    _remove_abandoned(target)
    place = target.parent / f".{target.name}.{uuid.uuid4().hex}{_SUFFIX}"
    place.mkdir(mode=0o700)
    descriptor = os.open(place, os.O_RDONLY)
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX)
        yield place
        _settle(place)
        require_free(target)
        place.rename(target)
        _sync(target.parent)
    finally:
        shutil.rmtree(place, ignore_errors=True)
        os.close(descriptor)


def require_free(target: Path) -> None:
    """Raises `StoreError` if a path exists and is not an empty directory."""
    if target.is_dir() and not any(target.iterdir()):
        return
    if target.exists() or target.is_symlink():
        message = f"{target} already exists. Choose another directory, or remove that one first; nothing was changed"
        raise StoreError(message=message, path=str(target))


def _remove_abandoned(target: Path) -> None:
    """Removes drafts of `target` whose processes have ended: nobody holds their locks."""
    for place in target.parent.glob(f".{escape(target.name)}.*{_SUFFIX}"):
        descriptor = os.open(place, os.O_RDONLY)
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
            shutil.rmtree(place, ignore_errors=True)
        except BlockingIOError:
            continue
        finally:
            os.close(descriptor)


def _settle(place: Path) -> None:
    """Makes all files below a directory private, and flushes files and directories to disk."""
    for directory, _, files in os.walk(place):
        for name in files:
            (Path(directory) / name).chmod(0o600)
            _sync(Path(directory) / name)
        _sync(Path(directory))


def _sync(path: Path) -> None:
    descriptor = os.open(path, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)
