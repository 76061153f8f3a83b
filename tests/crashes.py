"""Crashes of a driver that need no process: the epoch does all its work, and its commit never happens."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import tailrace as tr
from tailrace.store.commits import COMMITTED
from tailrace.store.lmdb.store import LmdbStore


class Crash(Exception):
    """The driver died before the commit."""


@contextmanager
def failing_commits() -> Iterator[None]:
    """Inside the block every commit of an epoch raises `Crash`."""
    original = LmdbStore.change_documents

    def change(self: LmdbStore, changes: Any, **options: Any) -> None:
        if COMMITTED.name in changes:
            raise Crash
        original(self, changes, **options)

    LmdbStore.change_documents = change  # type: ignore[method-assign]
    try:
        yield
    finally:
        LmdbStore.change_documents = original  # type: ignore[method-assign]


def crash_before_commit(db: tr.Database) -> None:
    """Run an epoch that does all its work but crashes before its commit."""
    try:
        with failing_commits():
            db.refresh()
    except Crash:
        return
    raise AssertionError("there was nothing to refresh")
