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

from tailrace.errors import StoreError, StoreFull
from tailrace.store.disk_errors import FORBIDDEN, FULL, full_disk, read_only

_SUFFIX = ".draft"


@contextmanager
def draft(target: Path) -> Iterator[Path]:
    """An empty private directory that becomes `target` when the block ends. It is removed if the block raises.

    Raises `StoreError` if `target` exists and is not an empty directory, `StoreFull` if the disk is full, `ReadOnly` if
    the directory cannot be made.
    """
    with _disk_errors(target):
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


@contextmanager
def _disk_errors(target: Path) -> Iterator[None]:
    """Turns errors of the disk that `target` is on into `StoreFull`, `ReadOnly` or `StoreError` that name `target`.

    Errors that name another place stay as they are, and so do those of the operating system that name none, unless the
    disk is full.
    """
    try:
        yield
    except StoreFull as error:
        if not _is_beside(target, error.path):
            raise
        advice = "Free some space" if error.full == "disk" else "Give tailrace.restore a larger map_size"
        text = f"cannot write to {target}: {error.reason}. Nothing was created. {advice} and try again"
        raise StoreFull(**{**error.data, "path": str(target), "advice": advice, "text": text}) from error
    except OSError as error:
        if error.errno in FULL and (error.filename is None or _is_beside(target, error.filename)):
            text = f"cannot write to {target}: the disk is full. Nothing was created. Free some space and try again"
            raise full_disk(str(target), text=text) from error
        if error.filename is None or not _is_beside(target, error.filename):
            raise
        reason = str(error.strerror)
        text = (
            f"cannot write to {target}: {reason}. Nothing was created. Choose a directory that this user can write to"
        )
        if error.errno in FORBIDDEN:
            raise read_only(str(target), reason, text=text) from error
        raise StoreError(message=text, path=str(target)) from error


def _is_beside(target: Path, path: str | bytes | os.PathLike[str]) -> bool:
    """Whether a path is `target`, its draft, in one of these, or a directory above."""
    absolute, parent = Path(os.path.abspath(os.fsdecode(path))), Path(os.path.abspath(target)).parent
    name = next((part for part in absolute.relative_to(parent).parts), "") if parent in absolute.parents else ""
    is_draft = name.startswith(f".{target.name}.") and name.endswith(_SUFFIX)
    return name == target.name or is_draft or absolute == parent or absolute in parent.parents


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
