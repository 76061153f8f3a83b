"""Files and directories that only their owner can use, whatever the umask.

Modes are set when something is made, never changed later: who opens a store to others on purpose keeps it so.
"""

from __future__ import annotations

import os
from pathlib import Path

DIRECTORY = 0o700
FILE = 0o600


def make_directory(path: Path) -> bool:
    """Make a directory, if there is none; one that is there and empty is taken over. Whether there is nothing in it."""
    path.parent.mkdir(parents=True, exist_ok=True)
    path.mkdir(mode=DIRECTORY, exist_ok=True)
    info = path.stat()
    if info.st_uid != os.geteuid() or any(path.iterdir()):
        return False
    if info.st_mode & 0o777 != DIRECTORY:
        path.chmod(DIRECTORY)
    return True


def open_file(path: Path, flags: int) -> int:
    """A descriptor of a file; one that is made by this call is private, and a link to elsewhere is not followed."""
    try:
        return os.open(path, flags & ~os.O_CREAT | os.O_NOFOLLOW)
    except FileNotFoundError:
        if not flags & os.O_CREAT:
            raise
    descriptor = os.open(path, flags | os.O_NOFOLLOW, FILE)
    os.fchmod(descriptor, FILE)  # a umask may have taken the owner's own rights
    return descriptor


def write_file(path: Path, text: str) -> None:
    """Write a file, durably, that nobody else can read, not even before its mode is set."""
    descriptor = open_file(path, os.O_WRONLY | os.O_CREAT | os.O_TRUNC)
    with open(descriptor, "w", encoding="utf-8") as file:
        file.write(text)
        file.flush()
        os.fsync(file.fileno())


def restrict(*paths: Path) -> None:
    for path in paths:
        path.chmod(FILE)
