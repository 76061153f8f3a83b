"""Tables with a time to live: expired rows are deleted by the runner, views follow, changed rows stay."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any
from unittest.mock import patch

import pyarrow as pa
import pytest

import tailrace as tr
from tailrace.catalog.retention import EXPIRIES, RETENTIONS
from tailrace.database import expiry
from tailrace.database.inside import inside
from tailrace.errors import SqlError, Unsupported
from tailrace.store.base import Change

START = datetime(2026, 1, 1, tzinfo=UTC)
DDL = "CREATE TABLE logs (id INT PRIMARY KEY, n INT, at {}) WITH (ttl = '1 hour', ttl_column = 'at')"


class Clock:
    now = int(START.timestamp() * 1_000_000)

    def __call__(self) -> int:
        return self.now

    def advance(self, **length: float) -> None:
        self.now += int(timedelta(**length).total_seconds() * 1_000_000)


@contextmanager
def opened(
    path: Path, spark: Any = None, kind: str = "TIMESTAMP", nodes: int = 2
) -> Iterator[tuple[tr.Database, Clock]]:
    with tr.open(path, create=True, spark=spark, durable=False, nodes=nodes) as db:
        clock = Clock()
        inside(db).epochs.clock = clock
        if "logs" not in db.tables():
            db.sql(DDL.format(kind))
        yield db, clock


def _ids(db: tr.Database) -> list[int]:
    return sorted(db.table("logs").scan().column("id").to_pylist())


def _pass(db: tr.Database) -> None:
    while inside(db).expired_rows.step():
        pass


@pytest.mark.parametrize("kind", ["TIMESTAMP", "TIMESTAMP_NTZ"])
def test_a_row_expires_exactly_when_its_time_has_passed(tmp_path: Path, kind: str) -> None:
    with opened(tmp_path / "s", kind=kind) as (db, clock):
        at = START if kind == "TIMESTAMP" else START.replace(tzinfo=None)
        db.table("logs").put_many([{"id": i, "at": at + timedelta(minutes=10 * i)} for i in range(5)])
        db.table("logs").put({"id": 9, "at": None})
        clock.advance(hours=1, microseconds=-1)
        _pass(db)
        assert _ids(db) == [0, 1, 2, 3, 4, 9]
        clock.advance(minutes=2)
        _pass(db)
        assert _ids(db) == [1, 2, 3, 4, 9]
        clock.advance(days=1)
        _pass(db)
        assert _ids(db) == [9], "a row without a time lives forever"
        (table,) = db.status().tables
        assert (table["ttl"]["deleted"], table["ttl"]["passes"], table["ttl"]["seconds"]) == (5, 3, 3600.0)


def test_dates(tmp_path: Path) -> None:
    with opened(tmp_path / "s", kind="DATE") as (db, clock):
        db.table("logs").put_many([{"id": i, "at": (START + timedelta(days=i)).date()} for i in range(3)])
        clock.advance(days=1, hours=1)
        _pass(db)
        assert _ids(db) == [2]


def test_a_row_that_changes_meanwhile_is_not_deleted(tmp_path: Path) -> None:
    with opened(tmp_path / "s", nodes=1) as (db, clock):
        table = db.table("logs")
        table.put_many([{"id": i, "n": 0, "at": START} for i in range(4)])
        clock.advance(hours=2)
        store = inside(db).store
        write = store.write

        def changed_first(changes: list[Change]) -> Any:
            with patch.object(store, "write", write):
                table.update({"id": 1, "n": 1})
                table.put({"id": 2, "at": START + timedelta(hours=2)})
                table.delete(3)
            return write(changes)

        with patch.object(store, "write", changed_first):
            _pass(db)
        assert _ids(db) == [1, 2]
        assert store.document(EXPIRIES, inside(db).catalog.table("logs").id).deleted == 1
        clock.advance(minutes=2)
        _pass(db)
        assert _ids(db) == [2], "the changed row is expired, too, and goes with the next pass"


def test_another_process_continues_the_pass(tmp_path: Path) -> None:
    with patch.object(expiry, "STEP", 10):
        with opened(tmp_path / "s") as (db, clock):
            db.table("logs").put_many([{"id": i, "at": START} for i in range(100)])
            clock.advance(hours=2)
            assert inside(db).expired_rows.step()
            assert len(_ids(db)) == 90
        with opened(tmp_path / "s") as (db, clock):
            clock.advance(hours=2)
            store = inside(db).store
            reads: list[bytes] = []
            rows = store.rows

            def noted(*args: Any, **bounds: Any) -> Iterator[pa.RecordBatch]:
                reads.append(bounds["after"])
                return rows(*args, **bounds)

            with patch.object(store, "rows", noted):
                _pass(db)
            assert reads[0] != b"", "it does not begin again"
            assert _ids(db) == []


def test_passes_are_rare(tmp_path: Path) -> None:
    with opened(tmp_path / "s") as (db, clock):
        db.table("logs").put({"id": 1, "at": START - timedelta(days=1)})
        _pass(db)
        db.table("logs").put({"id": 2, "at": START - timedelta(days=1)})
        clock.advance(seconds=expiry.PERIOD - 1)
        _pass(db)
        assert _ids(db) == [2]
        clock.advance(seconds=1)
        _pass(db)
        assert _ids(db) == []


def test_views_follow_and_the_runner_does_it(tmp_path: Path, spark: Any) -> None:
    with opened(tmp_path / "s", spark) as (db, clock):
        follow_expiry(db, clock)


def follow_expiry(db: tr.Database, clock: Clock) -> None:
    db.sql("CREATE MATERIALIZED VIEW total AS SELECT count(*) AS c, sum(n) AS s FROM logs")
    db.table("logs").put_many([{"id": i, "n": i, "at": START + timedelta(hours=i)} for i in range(6)])
    clock.advance(hours=3)
    db.run(0.01, until=lambda: db.view("total").scan().column("c").to_pylist() == [3])
    assert db.view("total").scan().to_pylist() == [{"c": 3, "s": 12}]
    assert db.verify("total").ok


def test_dropping_the_table_drops_its_retention(tmp_path: Path) -> None:
    with opened(tmp_path / "s") as (db, _):
        db.table("logs").put({"id": 1, "at": START})
        _pass(db)
        db.sql("DROP TABLE logs")
        store = inside(db).store
        assert (store.documents(RETENTIONS), store.documents(EXPIRIES)) == ({}, {})
        assert not inside(db).expired_rows.step()


@pytest.mark.parametrize(
    ("options", "error", "words"),
    [
        ("ttl = '1 day'", SqlError, "both ttl and ttl_column"),
        ("ttl = '1 month', ttl_column = 'at'", SqlError, "weeks or smaller"),
        ("ttl = '0 days', ttl_column = 'at'", SqlError, "positive"),
        ("ttl = '1 day', ttl_column = 'id'", SqlError, "DATE or TIMESTAMP"),
        ("ttl = '1 day', ttl_column = 'nothing'", SqlError, "'nothing'"),
        ("keep = '1 day'", Unsupported, "option keep"),
    ],
)
def test_refusals(tmp_path: Path, options: str, error: type[Exception], words: str) -> None:
    with tr.open(tmp_path / "s", create=True, durable=False) as db, pytest.raises(error, match=words):
        db.sql(f"CREATE TABLE t (id INT PRIMARY KEY, at TIMESTAMP) WITH ({options})")
