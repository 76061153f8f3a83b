"""`store.json`: the settings of an embedded store. All but `map_size` are fixed at creation."""

from __future__ import annotations

import json
import os
from pathlib import Path

import msgspec
from msgspec import structs

from tailrace.errors import NewerFormat, NotAStore, OlderFormat, OptionDiffers, StoreError
from tailrace.store.lmdb import private
from tailrace.store.lmdb.environment import translate
from tailrace.store.lmdb.form import Form
from tailrace.store.requested import Requested

FORMAT = 4
OLDEST_FORMAT = 2
MAP_SIZE = 1 << 38
MAX_MAP_SIZE = 1 << 46  # bytes; more would not fit into the address space of a process
_DRAFT = ".store.json."
_NEW_STORE = "make a new store: `tailrace dump` this one, and `tailrace restore` the dump with other options"


class Settings(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """The content of `store.json`. With `durable`, every commit is on disk when it returns."""

    format: int = FORMAT
    nodes: int = 2
    shards: int = 4
    map_size: int = MAP_SIZE
    durable: bool = True

    @property
    def form(self) -> Form:
        return Form.of(self.format)


def for_new_store(requested: Requested) -> Settings:
    given = {name: value for name, value in requested._asdict().items() if value is not None}
    nodes = Settings().nodes if requested.nodes is None else requested.nodes
    return Settings(**{"shards": 2 * nodes, **given})


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


def require(path: Path, requested: Requested) -> None:
    """Raises `OptionDiffers` if an existing store has other settings. A larger `map_size` is stored instead."""
    settings = read_settings(path)
    combined = combine(path, settings, requested)
    if combined != settings:
        _write(path, combined)


def combine(path: Path, settings: Settings, requested: Requested) -> Settings:
    """The settings of the store or backup at `path`, with a larger `map_size` if that was requested.

    Raises `OptionDiffers` for any other difference.
    """
    for option, given in requested._asdict().items():
        found = getattr(settings, option)
        if given is None or given == found or (option == "map_size" and given > found):
            continue
        advice = f"It is fixed when a store is created. Omit {option}, or {_NEW_STORE}"
        if option == "map_size":
            advice = "It can only be raised. Omit map_size"
        raise OptionDiffers(path=str(path), option=option, found=found, given=given, advice=advice)
    combined = structs.replace(settings, map_size=requested.map_size or settings.map_size)
    if (fault := _find_fault(combined)) is not None:
        raise StoreError(message=fault)
    return combined


def _write(path: Path, settings: Settings) -> None:
    draft = path / f"{_DRAFT}{os.getpid()}"
    try:
        private.write_file(draft, json.dumps(structs.asdict(settings), indent=1))
        draft.rename(path / "store.json")
    except OSError as error:
        raise translate(str(path), error) from error


def read_settings(path: Path) -> Settings:
    """The settings of the store at `path`. Raises `NotAStore` with the reason if they cannot be read."""
    if not path.exists():
        text = f"no store at {path}. Check the path, or create a store with `tailrace init {path}` or create=True"
        raise NotAStore(path=str(path), reason="no such directory", text=text)
    if not path.is_dir():
        raise NotAStore(path=str(path), reason="it is not a directory")
    try:
        content = json.loads((path / "store.json").read_text())
    except FileNotFoundError:
        raise NotAStore(path=str(path), reason="it has no store.json") from None
    except PermissionError as error:
        reason = f"cannot read {path / 'store.json'} ({error.strerror})"
        raise NotAStore(path=str(path), reason=reason, text=f"{reason}. Give this user read and write access") from None
    except (ValueError, RecursionError):
        raise NotAStore(path=str(path), reason="its store.json is not JSON") from None
    try:
        return decode(path, content)
    except ValueError as error:
        raise NotAStore(path=str(path), reason=f"its store.json {error}") from None


def decode(path: Path, content: object) -> Settings:
    """The settings of a store or backup at `path`. Raises `ValueError` with the reason if they are invalid."""
    if not isinstance(content, dict) or type(content.get("format")) is not int:
        raise ValueError("has no format number")
    if content["format"] > FORMAT:
        raise NewerFormat(path=str(path), found=content["format"], known=FORMAT)
    if content["format"] < OLDEST_FORMAT:
        raise OlderFormat(path=str(path), found=content["format"], known=FORMAT)
    try:
        settings = msgspec.convert(content, Settings)
    except msgspec.ValidationError as error:
        raise ValueError(f"is invalid ({error})") from None
    if (fault := _find_fault(settings)) is not None:
        raise ValueError(f"is invalid ({fault})")
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
