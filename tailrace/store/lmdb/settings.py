"""`store.json`: the settings of an embedded store. All but `map_size` are fixed at creation."""

from __future__ import annotations

import json
import os
from pathlib import Path

import msgspec
from msgspec import structs

from tailrace.errors import NewerFormat, NotAStore, OlderFormat, StoreError
from tailrace.store.lmdb import private
from tailrace.store.lmdb.environment import translate

FORMAT = 3
OLDEST_FORMAT = 2  # whose values of states and undo records are not packed
MAP_SIZE = 1 << 38
MAX_MAP_SIZE = 1 << 46  # bytes; more would not fit into the address space of a process
_DRAFT = ".store.json."


class Settings(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """The content of `store.json`. With `durable`, every commit is on disk when it returns."""

    format: int = FORMAT
    nodes: int = 2
    shards: int = 4
    map_size: int = MAP_SIZE
    durable: bool = True

    @property
    def packed(self) -> bool:
        """Whether values of states and undo records are packed."""
        return self.format > OLDEST_FORMAT


def create(path: Path, settings: Settings) -> None:
    """Creates a new store in a missing or empty directory."""
    if (fault := _find_fault(settings)) is not None:
        raise StoreError(message=fault)
    try:
        private.make_directory(path)
        private.make_directory(path / "shards")
    except OSError as error:
        raise translate(str(path), error) from error
    _write(path, settings)


def can_create(path: Path) -> bool:
    """Whether the path is free for a new store: missing, empty, or left by a process killed while creating one."""
    try:
        if not path.is_dir():
            return not path.exists()
        children = [p for p in path.iterdir() if not p.name.startswith(_DRAFT)]
        return all(p.name == "shards" and not any(p.iterdir()) for p in children)
    except OSError as error:
        raise translate(str(path), error) from error


def enlarge(path: Path, map_size: int) -> None:
    """Raises the `map_size` of a store. It never gets smaller."""
    settings = read_settings(path)
    if map_size > settings.map_size:
        _write(path, structs.replace(settings, map_size=map_size))


def _write(path: Path, settings: Settings) -> None:
    draft = path / f"{_DRAFT}{os.getpid()}"
    try:
        private.write_file(draft, json.dumps(structs.asdict(settings), indent=1))
        draft.rename(path / "store.json")
    except OSError as error:
        raise translate(str(path), error) from error


def read_settings(path: Path) -> Settings:
    """The settings of the store at `path`. Raises `NotAStore` with the reason if they cannot be read."""
    if not path.is_dir():
        raise NotAStore(path=str(path), reason="it is not a directory" if path.exists() else "no such directory")
    try:
        content = json.loads((path / "store.json").read_text())
    except FileNotFoundError:
        raise NotAStore(path=str(path), reason="it has no store.json") from None
    except PermissionError as error:
        reason = f"cannot read {path / 'store.json'} ({error.strerror})"
        raise NotAStore(path=str(path), reason=reason, text=f"{reason}. Give this user read and write access") from None
    except (ValueError, RecursionError):
        raise NotAStore(path=str(path), reason="its store.json is not JSON") from None
    if not isinstance(content, dict) or type(content.get("format")) is not int:
        raise NotAStore(path=str(path), reason="its store.json has no format number")
    if content["format"] > FORMAT:
        raise NewerFormat(path=str(path), found=content["format"], known=FORMAT)
    if content["format"] < OLDEST_FORMAT:
        raise OlderFormat(path=str(path), found=content["format"], known=FORMAT)
    try:
        settings = msgspec.convert(content, Settings)
    except msgspec.ValidationError as error:
        raise NotAStore(path=str(path), reason=f"its store.json is invalid ({error})") from None
    if (fault := _find_fault(settings)) is not None:
        raise NotAStore(path=str(path), reason=f"its store.json is invalid ({fault})")
    return settings


def _find_fault(settings: Settings) -> str | None:
    """Which setting is out of range, and its range."""
    nodes, shards = settings.nodes, settings.shards
    if not 1 <= nodes <= 1024:
        return f"nodes is {nodes}; it must be 1 to 1024"
    if not 1 <= shards <= 4096 or shards % nodes:
        return f"shards is {shards}; it must be a multiple of nodes ({nodes}) and at most 4096"
    if not 0 < settings.map_size <= MAX_MAP_SIZE:
        return f"map_size is {settings.map_size}; it must be 1 byte to 64 TiB"
    return None
