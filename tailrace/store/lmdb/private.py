"""Creates files and directories that only their owner can access, whatever the umask.

Modes are set at creation and never changed later, so an operator can open a store to other users.
"""

from __future__ import annotations

import os
from pathlib import Path

DIRECTORY = 0o700
FILE = 0o600


def make_directory(path: Path) -> bool:
    """Creates a directory, or makes an existing empty one private. Returns whether it is empty and our own."""
    path.parent.mkdir(parents=True, exist_ok=True)
    path.mkdir(mode=DIRECTORY, exist_ok=True)
    info = path.stat()
    if info.st_uid != os.geteuid() or any(path.iterdir()):
        return False
    if info.st_mode & 0o777 != DIRECTORY:
        path.chmod(DIRECTORY)
    return True


def open_file(path: Path, flags: int) -> int:
    """Opens a file and returns its descriptor. A new file is private. Symbolic links are not followed."""
    try:
        return os.open(path, flags & ~os.O_CREAT | os.O_NOFOLLOW)
    except FileNotFoundError:
        if not flags & os.O_CREAT:
            raise
    descriptor = os.open(path, flags | os.O_NOFOLLOW, FILE)
    os.fchmod(descriptor, FILE)  # a umask may have removed the owner's permissions
    return descriptor


def write_file(path: Path, text: str) -> None:
    """Writes a file durably. No other user can read it at any moment."""
    descriptor = open_file(path, os.O_WRONLY | os.O_CREAT | os.O_TRUNC)
    with open(descriptor, "w", encoding="utf-8") as file:
        file.write(text)
        file.flush()
        os.fsync(file.fileno())


def restrict(*paths: Path) -> None:
    for path in paths:
        path.chmod(FILE)
