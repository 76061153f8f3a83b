"""The parts behind a database, for tests, benchmarks and tools of this repository. Not part of the public surface.

Everything that looks behind the surface goes through here, so that the parts may move without breaking it.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from tailrace.catalog.catalog import Catalog
from tailrace.database.database import Database
from tailrace.database.expiry import ExpiredRows

if TYPE_CHECKING:
    from tailrace.database.view_builder import Builder
    from tailrace.epochs.protocol import Epochs


class Inside:
    """The store, the catalog, the epochs and the builder of one database."""

    def __init__(self, db: Database) -> None:
        self._db = db

    @property
    def store(self) -> Any:
        """The store, as the implementation that it is: tests look at what only that has."""
        return self._db._store

    @property
    def catalog(self) -> Catalog:
        return self._db._catalog

    @property
    def epochs(self) -> Epochs:
        """Settings of epochs: `small` and `overhead` decide how work is divided and views are refreshed."""
        return self._db._epochs

    @property
    def expired_rows(self) -> ExpiredRows:
        """The search for expired rows; `period` is the time between two passes over a table."""
        return self._db._expired_rows

    @property
    def builder(self) -> Builder:
        """Settings of builds: `chunk` is the number of rows that one epoch of a build loads."""
        return self._db._builder

    def refresh(self) -> None:
        """One refresh, for a caller that already holds the runner lock."""
        self._db._refresh()

    def forget_catalog(self) -> None:
        """Let the catalog be read again, as if another process had changed it."""
        self._db._catalog._version = -1


def inside(db: Database) -> Inside:
    return Inside(db)
