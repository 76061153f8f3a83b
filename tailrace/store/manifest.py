"""`manifest.json`: what a backup or a dump contains, with the size and the checksum of each of its files."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any, Literal

import msgspec

from tailrace.errors import BadBackup, NewerFormat
from tailrace.store.base import Cut
from tailrace.store.documents import Count

VERSION = 1
NAME = "manifest.json"
BLOCK = 1 << 20  # bytes read at a time


class FileRecord(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    size: Count
    sha256: str


class Manifest(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """The content of `manifest.json`.

    cut         the last transaction whose rows the tables have
    epoch       the committed epoch, which views show; in a dump, 0
    settings    the settings of the store
    files       size and checksum of every file besides the manifest, by name
    tables      in a dump: the file of each table's rows, by table
    """

    kind: Literal["backup", "dump"]
    tailrace: str
    at: str
    cut: Cut
    epoch: Count
    settings: dict[str, Any]
    files: dict[str, FileRecord]
    tables: dict[str, str] = {}
    version: Count = VERSION

    @property
    def size(self) -> int:
        """The bytes of all files."""
        return sum(record.size for record in self.files.values())


def record_files(directory: Path, names: Iterable[str]) -> dict[str, FileRecord]:
    """The sizes and checksums of files."""
    return {name: FileRecord((directory / name).stat().st_size, _checksum(directory / name)) for name in names}


def _checksum(path: Path) -> str:
    with open(path, "rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


def write_manifest(directory: Path, manifest: Manifest) -> None:
    (directory / NAME).write_text(json.dumps(msgspec.to_builtins(manifest), indent=1) + "\n", encoding="utf-8")


def read_manifest(directory: Path) -> Manifest:
    """The manifest of a backup or dump. Raises `BadBackup` if it is missing, damaged, or names a missing file."""
    if not directory.is_dir():
        reason = "it is not a directory" if directory.exists() else "no such directory"
        raise BadBackup(path=str(directory), reason=reason)
    try:
        content = json.loads((directory / NAME).read_bytes())
    except FileNotFoundError:
        raise BadBackup(path=str(directory), reason=f"it has no {NAME}") from None
    except OSError as error:
        raise _unreadable(directory, NAME, error) from None
    except (ValueError, RecursionError):
        raise BadBackup(path=str(directory), reason=f"{NAME} is damaged: not JSON", file=NAME) from None
    version = content.get("version") if isinstance(content, dict) else None
    if isinstance(version, int) and version > VERSION:
        raise NewerFormat(path=str(directory), found=version, known=VERSION)
    try:
        manifest = msgspec.convert(content, Manifest)
    except msgspec.ValidationError as error:
        raise BadBackup(path=str(directory), reason=f"{NAME} is damaged: {error}", file=NAME) from None
    for name, record in manifest.files.items():
        _check_size(directory, name, record)
    return manifest


def _check_size(directory: Path, name: str, record: FileRecord) -> None:
    path = directory / name
    if Path(name).is_absolute() or ".." in Path(name).parts:
        raise BadBackup(path=str(directory), reason=f"{NAME} is damaged: it names a file outside: {name}", file=NAME)
    if not path.is_file():
        raise BadBackup(path=str(directory), reason=f"{name} is missing", file=name)
    if (size := path.stat().st_size) != record.size:
        reason = f"{name} is damaged: it has {size:,} bytes instead of {record.size:,}"
        raise BadBackup(path=str(directory), reason=reason, file=name)


def copy_checked(directory: Path, name: str, record: FileRecord, target: int) -> None:
    """Copies a file to a descriptor. Raises `BadBackup` if its content is not what the manifest says."""
    digest = hashlib.sha256()
    with open(target, "wb") as copy:
        for block in _blocks(directory, name):
            digest.update(block)
            copy.write(block)
    _compare(directory, name, record, digest.hexdigest())


def check(directory: Path, name: str, record: FileRecord) -> None:
    """Raises `BadBackup` if a file's content is not what the manifest says."""
    digest = hashlib.sha256()
    for block in _blocks(directory, name):
        digest.update(block)
    _compare(directory, name, record, digest.hexdigest())


def _blocks(directory: Path, name: str) -> Iterator[bytes]:
    """The content of a file. Raises `BadBackup` if it cannot be read."""
    try:
        with open(directory / name, "rb") as source:
            while block := source.read(BLOCK):
                yield block
    except OSError as error:
        raise _unreadable(directory, name, error) from None


def _unreadable(directory: Path, name: str, error: OSError) -> BadBackup:
    return BadBackup(path=str(directory), reason=f"{name} cannot be read: {error.strerror}", file=name)


def _compare(directory: Path, name: str, record: FileRecord, found: str) -> None:
    if found != record.sha256:
        reason = f"{name} is damaged: its checksum is not the one in {NAME}"
        raise BadBackup(path=str(directory), reason=reason, file=name)
