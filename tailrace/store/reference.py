"""References to stores: how a Spark task, in another process, opens the store that its driver has open.

    lmdb:/data/shop        the embedded store in a directory

A plain path is a reference to an embedded store.
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
"""The module of each kind of store that opens it in a worker: `attach(url)`."""


@dataclass(frozen=True)
class StoreRef:
    """The address of a store. It is small and can be pickled, so every task carries one."""

    url: str

    @classmethod
    def of(cls, path: str | os.PathLike[str]) -> StoreRef:
        """The reference that a user means by a URL or a plain path; `NotAStore` for an unknown kind of store."""
        text = os.fspath(path)
        scheme, colon, rest = text.partition(":")
        if rest.startswith("//") and scheme not in SCHEMES:
            known = ", ".join(f"{name}:" for name in SCHEMES)
            raise NotAStore(path=text, reason=f"no store is called {scheme}: (known: a directory, or {known})")
        return cls(text) if colon and scheme in SCHEMES else cls(f"lmdb:{Path(text).resolve()}")

    @property
    def location(self) -> str:
        """The address without its scheme: the directory of an embedded store."""
        return self.url.partition(":")[2]

    def open(self) -> Store:
        """The store, opened once in each process and kept open; the caller does not close it."""
        module = importlib.import_module(SCHEMES[self.url.partition(":")[0]])
        store: Store = module.attach(self)
        return store
