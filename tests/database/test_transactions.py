"""Transactions: writes to several tables are applied atomically and in order."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

import tailrace as tr
from tailrace.database.inside import inside
from tailrace.errors import BadValue, Ended, NoSuchRow, StoreError, UnknownName


@pytest.fixture
def db(tmp_path: Path, spark: Any) -> Iterator[tr.Database]:
    with tr.open(tmp_path / "s", create=True, spark=spark, nodes=3, map_size=1 << 28) as database:
        for name in "ab":
            database.sql(f"CREATE TABLE {name} (id INT PRIMARY KEY, g INT, v INT)")
        database.table("a").put_many([{"id": i, "g": i, "v": 1} for i in range(10)])
        yield database


def rows(db: tr.Database, name: str) -> dict[int, tuple[Any, Any]]:
    return {r["id"]: (r["g"], r["v"]) for r in db.table(name).scan().to_pylist()}


def test_all_writes_are_committed_as_one_transaction(db: tr.Database) -> None:
    before = inside(db).store.newest_cut()
    with db.transaction() as t:
        a, b = t.table("a"), t.table("b")
        a.put({"id": 100, "v": 5})
        a.update({"id": 100, "g": 7})
        a.update_many([{"id": 0, "v": 2}, {"id": 0, "g": 3, "v": 3}])
        b.put_many([{"id": 1, "v": 1}, {"id": 2, "v": 2}])
        b.delete(1)
        a.delete_many([1, 2, 555])
        a.put({"id": 2, "v": 9})
        assert a.get(100) is None
        assert b.scan().num_rows == 0
        assert a.get(0) == db.table("a").get(0) == {"id": 0, "g": 0, "v": 1}
        assert inside(db).store.newest_cut() == before
    assert t.written.transaction == before.transaction + 1
    assert inside(db).store.newest_cut().transaction == t.written.transaction
    assert rows(db, "b") == {2: (None, 2)}
    kept = {i: (i, 1) for i in range(3, 10)}
    assert rows(db, "a") == {**kept, 0: (3, 3), 2: (None, 9), 100: (7, 5)}
    db.sql("CREATE MATERIALIZED VIEW both AS SELECT id, v FROM a UNION ALL SELECT id, v FROM b")
    with db.transaction() as t:
        t.table("a").put({"id": 2, "v": 1})
        t.table("a").put({"id": 2, "v": 2})
        t.table("b").delete(2)
    db.refresh()
    assert db.view("both").scan(at_least=t.written).num_rows == 10
    assert db.verify("both").ok


class Failure(Exception):
    pass


def raise_failure(t: tr.Transaction) -> None:
    raise Failure


def put_bad_row(t: tr.Transaction) -> None:
    t.table("b").put({"id": "one"})


def update_missing_row(t: tr.Transaction) -> None:
    t.table("b").update({"id": 1, "v": 3})


@pytest.mark.parametrize(
    ("fail", "error"), [(raise_failure, Failure), (put_bad_row, BadValue), (update_missing_row, NoSuchRow)]
)
def test_an_exception_rolls_everything_back(db: tr.Database, fail: Any, error: type[Exception]) -> None:
    before, was = inside(db).store.newest_cut(), rows(db, "a")
    t = db.transaction()

    def write() -> None:
        with t:
            t.table("a").put({"id": 1, "v": 77})
            fail(t)

    with pytest.raises(error):
        write()
    assert (inside(db).store.newest_cut(), rows(db, "a"), rows(db, "b")) == (before, was, {})
    with pytest.raises(StoreError, match="not been written"):
        t.written  # noqa: B018


def test_a_transaction_can_be_used_once_and_only_in_its_block(db: tr.Database) -> None:
    unused = db.transaction()
    with pytest.raises(StoreError, match="with"):
        unused.table("a")
    with db.transaction() as t:
        table = t.table("a")
        with pytest.raises(StoreError, match="yet"):
            t.written  # noqa: B018
    assert t.written == (1, 0)
    for use in (lambda: table.put({"id": 1}), lambda: t.table("a"), t.__enter__):
        with pytest.raises(Ended):
            use()


def test_a_table_dropped_during_the_transaction_rolls_it_back(db: tr.Database) -> None:
    t = db.transaction()
    t.__enter__()
    t.table("a").put({"id": 1, "v": 77})
    t.table("b").put({"id": 1, "v": 77})
    db.sql("DROP TABLE b")
    with pytest.raises(UnknownName):
        t.__exit__(None, None, None)
    assert rows(db, "a")[1] == (1, 1)
