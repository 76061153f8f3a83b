"""A store that an earlier release left in the middle of an epoch and of a build opens, recovers and is right.

It can be backed up and dumped as it is, before the upgrade is trusted.

`tests/fixtures/stores/format-2.tar.xz` was written by the release before documents had types: two tables (one with keys
of 600 bytes), views of every kind, an epoch whose process was killed before the commit, and a view half built.
`format-3.tar.xz` was written by the release before keys were packed: two tables, views of every kind, and an epoch that
all shards have applied but that is not committed.
"""

from __future__ import annotations

import tarfile
from pathlib import Path
from typing import Any

import pytest

import tailrace as tr
from tailrace.database.inside import inside

STORES = Path(__file__).parent.parent / "fixtures" / "stores"
VIEWS = ["bag", "few", "named", "pairs", "spend", "whole"]


def unpacked(name: str, place: Path) -> Path:
    with tarfile.open(STORES / name) as archive:
        options: Any = {"filter": "data"} if hasattr(tarfile, "data_filter") else {}  # Python 3.11.4 or newer
        archive.extractall(place, **options)
    return place / "shop"


@pytest.fixture
def shop(tmp_path: Path) -> Path:
    return unpacked("format-2.tar.xz", tmp_path)


def test_a_store_of_format_2(shop: Path, spark: Any) -> None:
    with tr.open(shop, spark=spark) as db:
        _is_right(db)


def test_a_backup_of_a_store_of_format_2(shop: Path, spark: Any) -> None:
    """Backed up as it is, before anything is recovered; the restored store recovers like the original."""
    with tr.open(shop) as db:
        saved, status = db.backup(shop.parent / "backup"), db.status()
    assert tr.restore(shop.parent / "backup", shop.parent / "again", spark=spark).ok
    with tr.open(shop.parent / "again", spark=spark) as db:
        assert (db.status().epoch, db.status().lag_operations) == (saved.epoch, status.lag_operations)
        _is_right(db)


def test_a_dump_of_a_store_of_format_2(shop: Path, spark: Any) -> None:
    with tr.open(shop) as db:
        db.dump(shop.parent / "dump")
        tables = {name: sorted(map(repr, db.table(name).scan().to_pylist())) for name in db.tables()}
    assert tr.restore(shop.parent / "dump", shop.parent / "again", spark=spark).ok
    with tr.open(shop.parent / "again", spark=spark) as db:
        assert {name: sorted(map(repr, db.table(name).scan().to_pylist())) for name in db.tables()} == tables
        assert db.views() == VIEWS


def _is_right(db: tr.Database) -> None:
    before = db.status()
    assert (db.tables(), db.views()) == (["notes", "orders"], VIEWS)
    assert [build["name"] for build in before.building] == ["late"]
    assert db.table("notes").get(("z" * 700, 99)) == {"name": "z" * 700, "n": 99, "body": "new"}
    assert db.view("named").get("n" * 600 + "1") == {"name": "n" * 600 + "1", "n": 7, "least": "b"}
    epoch = db.refresh()
    assert epoch.number > before.epoch
    assert db.status().building == []
    assert db.view("named").get("z" * 700) == {"name": "z" * 700, "n": 1, "least": "new"}
    db.table("orders").put({"id": 7, "cust": "c1", "price": "1.50", "day": "2026-02-01", "x": 0.5})
    db.refresh()
    for name in db.views():
        assert db.verify(name).ok, name
    assert db.views() == sorted([*VIEWS, "late"])
    assert db.audit().ok


def test_a_store_of_format_3(tmp_path: Path, spark: Any) -> None:
    """It keeps its format: the earlier release could still read what is written."""
    with tr.open(unpacked("format-3.tar.xz", tmp_path), spark=spark) as db:
        before = db.status()
        assert before.lag_operations == 100
        assert db.refresh().number > before.epoch
        orders = db.table("orders")
        orders.put_many(
            [{"id": 2**40 + i, "cust": i % 300, "name": f"n{i}", "amount": -i, "x": 0.5} for i in range(300)]
        )
        orders.delete_many(list(range(100, 200)))
        db.refresh()
        assert len(db.views()) == 7
        for name in db.views():
            assert db.verify(name).ok, name
        assert db.audit().ok
        store = inside(db).store
        assert store.settings.format == 3
        known = {v.state for v in inside(db).catalog.views.values()} | set(inside(db).catalog.states.values())
        for index in range(store.shards):
            environment = store.shard(index).environment
            with environment.read() as txn:
                assert {int.from_bytes(key[:4]) for key, _ in txn.cursor(environment.databases["data"])} <= known
                shapes = [value for _, value in txn.cursor(environment.databases["shapes"])]
                assert all(len(value) == 4 + (int.from_bytes(value[:4], "little") + 7) // 8 for value in shapes)
