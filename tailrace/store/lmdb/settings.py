"""`store.json`: what a store is made of, fixed when it is made."""

from __future__ import annotations

import json
import os
from pathlib import Path

import msgspec
from msgspec import structs

from tailrace.errors import NewerFormat, NotAStore, OlderFormat, StoreError
from tailrace.store.lmdb import private
from tailrace.store.lmdb.environment import translate

FORMAT = 2
MAP_SIZE = 1 << 38
LARGEST = 1 << 46  # bytes: what a process has room for
_DRAFT = ".store.json."


class Settings(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """What `store.json` says. `durable` = every commit is on disk when it returns."""

    format: int = FORMAT
    nodes: int = 2
    shards: int = 4
    map_size: int = MAP_SIZE
    durable: bool = True


def create(path: Path, settings: Settings) -> None:
    """Lay out a new store in an absent or empty directory."""
    if not _possible(settings):
        advice = "shards must be a multiple of nodes (1 to 1024), and at most 4096; map_size at most 64 TiB"
        raise StoreError(message=advice)
    try:
        private.make_directory(path)
        private.make_directory(path / "shards")
    except OSError as error:
        raise translate(str(path), error) from error
    _write(path, settings)


def can_create(path: Path) -> bool:
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
        _write(path, structs.replace(found, map_size=map_size))


def _write(path: Path, settings: Settings) -> None:
    draft = path / f"{_DRAFT}{os.getpid()}"
    try:
        private.write_file(draft, json.dumps(structs.asdict(settings), indent=1))
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
    except (ValueError, RecursionError):
        raise NotAStore(path=str(path), reason="its store.json is not JSON") from None
    if not isinstance(found, dict) or type(found.get("format")) is not int:
        raise NotAStore(path=str(path), reason="its store.json names no format")
    if found["format"] > FORMAT:
        raise NewerFormat(path=str(path), found=found["format"], known=FORMAT)
    if found["format"] < FORMAT:
        raise OlderFormat(path=str(path), found=found["format"], known=FORMAT)
    try:
        settings = msgspec.convert(found, Settings)
    except msgspec.ValidationError as error:
        raise NotAStore(path=str(path), reason=f"its store.json is invalid ({error})") from None
    if not _possible(settings):
        raise NotAStore(path=str(path), reason="its store.json is invalid (impossible numbers of nodes or shards)")
    return settings


def _possible(settings: Settings) -> bool:
    """Whether there can be a store of so many nodes and shards, and of that size."""
    nodes, shards = settings.nodes, settings.shards
    return 1 <= nodes <= 1024 and 1 <= shards <= 4096 and shards % nodes == 0 and 0 < settings.map_size <= LARGEST
