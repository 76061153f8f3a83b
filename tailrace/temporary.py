"""Temporary directories of this process: private to its user, and removed when the process ends."""

from __future__ import annotations

import atexit
import os
import shutil
import tempfile
from pathlib import Path

_made: list[tuple[int, Path]] = []  # the process that made each directory: a forked child must not remove it


def make(prefix: str = "tailrace-") -> Path:
    """A new directory that only this user can read."""
    directory = Path(tempfile.mkdtemp(prefix=prefix))
    _made.append((os.getpid(), directory))
    return directory


def remove_all() -> None:
    """Removes the directories that this process has made. Called at its end, also when it is interrupted."""
    for maker, directory in _made:
        if maker == os.getpid():
            shutil.rmtree(directory, ignore_errors=True)


atexit.register(remove_all)
