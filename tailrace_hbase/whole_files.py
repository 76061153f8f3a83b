"""Files of a cluster that other processes may read at any time: each is replaced in one step."""

from __future__ import annotations

import os
from pathlib import Path


def write_whole(file: Path, content: bytes, mode: int = 0o644) -> None:
    """Writes a file, and the directory for it, unless it has this content already."""
    if file.exists() and file.read_bytes() == content:
        return
    file.parent.mkdir(parents=True, exist_ok=True)
    fresh = file.with_name(f"{file.name}.{os.getpid()}")
    fresh.write_bytes(content)
    fresh.chmod(mode)
    fresh.replace(file)
