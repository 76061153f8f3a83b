"""`store.json`: what a store is made of, fixed when it is made."""

from __future__ import annotations

import json
import os
from dataclasses import asdict, dataclass, replace
from pathlib import Path

from tailrace.errors import NewerFormat, NotAStore, OlderFormat, StoreError
from tailrace.store.env import translate

FORMAT = 2
MAP_SIZE = 1 << 38
_DRAFT = ".store.json."


@dataclass(frozen=True)
class Settings:
    """What `store.json` says. `durable` = every commit is on disk when it returns."""

    format: int = FORMAT
    nodes: int = 2
    shards: int = 4
    map_size: int = MAP_SIZE
    durable: bool = True


def create(path: Path, settings: Settings) -> None:
    """Lay out a new store in an absent or empty directory."""
    if not (1 <= settings.nodes <= 1024 and settings.shards % settings.nodes == 0 and settings.shards <= 4096):
        raise StoreError(message="shards must be a multiple of nodes (1 to 1024), and at most 4096")
    try:
        path.mkdir(mode=0o700, parents=True, exist_ok=True)
        (path / "shards").mkdir(mode=0o700, exist_ok=True)
    except OSError as error:
        raise translate(str(path), error) from error
    _write(path, settings)


def absent(path: Path) -> bool:
    """Whether a store can be made there: there is nothing, or what was left of one whose making was killed."""
    try:
        if not path.is_dir():
            return not path.exists()
        there = [p for p in path.iterdir() if not p.name.startswith(_DRAFT)]
        return all(p.name == "shards" and not any(p.iterdir()) for p in there)
    except OSError as error:
        raise translate(str(path), error) from error


def enlarge(path: Path, map_size: int) -> None:
    """Let the parts of a store grow further; they never shrink."""
    found = read_settings(path)
    if map_size > found.map_size:
        _write(path, replace(found, map_size=map_size))


def _write(path: Path, settings: Settings) -> None:
    draft = path / f"{_DRAFT}{os.getpid()}"
    try:
        with draft.open("w") as file:
            draft.chmod(0o600)
            file.write(json.dumps(asdict(settings), indent=1))
            file.flush()
            os.fsync(file.fileno())
        draft.rename(path / "store.json")
    except OSError as error:
        raise translate(str(path), error) from error


def read_settings(path: Path) -> Settings:
    """The settings of the store at `path`, or why it is none."""
    if not path.is_dir():
        raise NotAStore(path=str(path), reason="it is not a directory" if path.exists() else "no such directory")
    try:
        found = json.loads((path / "store.json").read_text())
    except FileNotFoundError:
        raise NotAStore(path=str(path), reason="it has no store.json") from None
    except PermissionError as error:
        raise NotAStore(path=str(path), reason=f"its store.json may not be read ({error.strerror})") from None
    except ValueError:
        raise NotAStore(path=str(path), reason="its store.json is not JSON") from None
    if not isinstance(found, dict) or not isinstance(found.get("format"), int):
        raise NotAStore(path=str(path), reason="its store.json names no format")
    if found["format"] > FORMAT:
        raise NewerFormat(path=str(path), found=found["format"], known=FORMAT)
    if found["format"] < FORMAT:
        raise OlderFormat(path=str(path), found=found["format"], known=FORMAT)
    try:
        return Settings(**found)
    except TypeError as error:
        raise NotAStore(path=str(path), reason=f"its store.json is wrong ({error})") from None
