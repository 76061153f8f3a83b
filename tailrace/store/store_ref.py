"""References to stores. A database is opened by one, and so is its store in the tasks of other processes.

    lmdb:/data/shop              the embedded store in a directory
    hbase://host:9090/shop       the store in a namespace of HBase: host and port of a Thrift2 server

A plain path refers to an embedded store.
"""

from __future__ import annotations

import importlib
import os
from dataclasses import dataclass
from pathlib import Path
from types import ModuleType
from typing import TYPE_CHECKING

from tailrace.errors import MissingPackage, NotAStore
from tailrace.store.requested import Requested

if TYPE_CHECKING:
    from tailrace.store.base import Store

EMBEDDED = "lmdb"
SCHEMES = {EMBEDDED: "tailrace.store.lmdb", "hbase": "tailrace.store.hbase"}
"""By URL scheme, the package of the store. It has two modules: `attached` for tasks, and `opening` for databases."""

TASK_VARIABLES = ("TAILRACE_HBASE_CONNECTION",)
"""Variables of the environment by which tasks open stores. Spark hands them to executors, so none may be a secret."""


@dataclass(frozen=True)
class StoreRef:
    """The URL of a store. It can be pickled; every task carries one.

    `machine` is the only machine that can open it (`store/processes.py`), if the store is bound to one.
    """

    url: str
    machine: str | None = None

    @classmethod
    def of(cls, path: str | os.PathLike[str]) -> StoreRef:
        """From a URL or a plain path. Raises `NotAStore` for an unknown scheme."""
        text = os.fspath(path)
        scheme, colon, rest = text.partition(":")
        if rest.startswith("//") and scheme not in SCHEMES:
            known = ", ".join(f"{name}:" for name in SCHEMES)
            raise NotAStore(path=text, reason=f"unknown scheme {scheme}: (use a directory, or {known})")
        return cls(text) if colon and scheme in SCHEMES else cls(f"lmdb:{Path(text).resolve()}")

    @property
    def scheme(self) -> str:
        return self.url.partition(":")[0]

    @property
    def location(self) -> str:
        """The URL without its scheme: the directory of an embedded store."""
        return self.url.partition(":")[2]

    @property
    def directory(self) -> Path | None:
        """The directory of an embedded store; None for a store elsewhere."""
        return Path(self.location) if self.url.startswith("lmdb:") else None

    def attach(self) -> Store:
        """The store, opened once per process. It stays open for later tasks: the caller must not close it."""
        store: Store = self._module("attached").attach(self)
        return store

    def open(self, requested: Requested, *, create: bool) -> Store:
        """The store, opened for a database, which closes it. With `create`, it is created if it does not exist.

        Raises `OptionDiffers` if it exists and has other settings than those requested.
        """
        store: Store = self._module("opening").open_store(self, requested, create=create)
        return store

    @property
    def exists(self) -> bool:
        """Whether there is a store at this place."""
        return bool(self._module("opening").exists(self))

    def _module(self, name: str) -> ModuleType:
        try:
            return importlib.import_module(f"{SCHEMES[self.scheme]}.{name}")
        except ModuleNotFoundError as error:
            if (error.name or "").startswith("tailrace"):
                raise
            raise MissingPackage(url=self.url, package=error.name, extra=self.scheme) from None
