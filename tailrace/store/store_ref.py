"""References to stores. A Spark task in another process opens the driver's store by its reference.

    lmdb:/data/shop        the embedded store in a directory

A plain path refers to an embedded store.
"""

from __future__ import annotations

import importlib
import os
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from tailrace.errors import NotAStore

if TYPE_CHECKING:
    from tailrace.store.base import Store

SCHEMES = {"lmdb": "tailrace.store.lmdb.attached"}
"""By URL scheme, the module whose `attach(ref)` opens a store in a worker process."""


@dataclass(frozen=True)
class StoreRef:
    """The URL of a store. It can be pickled; every task carries one."""

    url: str

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
    def location(self) -> str:
        """The URL without its scheme: the directory of an embedded store."""
        return self.url.partition(":")[2]

    def open(self) -> Store:
        """The store, opened once per process. It stays open for later tasks: the caller must not close it."""
        module = importlib.import_module(SCHEMES[self.url.partition(":")[0]])
        store: Store = module.attach(self)
        return store
