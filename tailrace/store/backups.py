"""The interface by which a store copies itself while it is used. It is a capability."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping
from contextlib import AbstractContextManager
from pathlib import Path
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from tailrace.store.base import Store


class Backups(ABC):
    """Copies the files of a store, one after another. The caller brings the copy to one state before it is packed."""

    @abstractmethod
    def copy(self, place: Path, on_copy: Callable[[str], None]) -> None:
        """Copies tables, logs and documents as of one moment into a directory, then each shard as of a later one.

        `on_copy` is called with the name of each part before it is copied.
        """

    @abstractmethod
    def opened(self, place: Path) -> AbstractContextManager[Store]:
        """The copy as a store, for the duration of the block. No other process uses it."""

    @abstractmethod
    def pack(self, place: Path) -> list[str]:
        """Turns the copy into files that cannot be opened as a store by mistake. Returns their names."""

    @property
    @abstractmethod
    def settings(self) -> Mapping[str, Any]:
        """The settings of the store, for the manifest."""
