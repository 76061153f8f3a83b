"""Capabilities: using one that a store lacks is a clear error and changes nothing."""

from __future__ import annotations

from pathlib import Path

import pytest

import tailrace as tr
from tailrace.errors import NotCapable
from tailrace.store.base import Capability
from tailrace.store.lmdb.store import LmdbStore


@pytest.fixture
def plain(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> tr.Database:
    """A store without any optional capability."""
    monkeypatch.setattr(LmdbStore, "capabilities", frozenset())
    db = tr.open(tmp_path / "s", create=True, map_size=1 << 26)
    db.sql("CREATE TABLE a (id INT PRIMARY KEY, v INT)")
    return db


def test_an_embedded_store_has_all_capabilities(tmp_path: Path) -> None:
    assert LmdbStore.capabilities == frozenset(Capability)


def test_transactions_without_the_capability(plain: tr.Database) -> None:
    with pytest.raises(NotCapable) as error:
        plain.transaction()
    assert error.value.capability == Capability.TRANSACTIONS.value
    assert plain.path in str(error.value)


def test_repairs_without_the_capability(plain: tr.Database) -> None:
    with pytest.raises(NotCapable, match="repairs"):
        plain.audit(repair=True)


def test_an_audit_without_inspection_skips_the_structure(plain: tr.Database) -> None:
    assert plain.audit().ok
