"""A store whose directory is moved away while it is in use: a clear error, no view to blame, nothing made anew."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

import tailrace as tr
from tailrace.database.inside import inside
from tailrace.epochs.clock import wall_clock
from tailrace.errors import NotAStore

GONE = "is gone: it was moved or deleted while in use"


def test_epochs_end_and_continue_when_the_store_is_back(tmp_path: Path, spark: Any) -> None:
    path, moved = tmp_path / "s", tmp_path / "moved"
    with tr.open(path, create=True, spark=spark, durable=False) as db:
        db.sql("CREATE TABLE t (id INT PRIMARY KEY, n INT); CREATE MATERIALIZED VIEW v AS SELECT SUM(n) AS s FROM t")
        db.table("t").put({"id": 1, "n": 1})
        path.rename(moved)
        with pytest.raises(NotAStore, match=GONE):
            db.refresh()
        assert not path.exists()
        moved.rename(path)

        def clock() -> int:  # called under the epoch lock
            if path.exists():
                path.rename(moved)
            return wall_clock()

        inside(db).epochs.clock = clock
        with pytest.raises(NotAStore, match=GONE):  # noticed by a task
            db.refresh()
        inside(db).epochs.clock = wall_clock
        assert not path.exists()
        moved.rename(path)
        assert db.view("v").failure is None
        db.refresh()
        assert db.view("v").scan().to_pylist() == [{"s": 1}]
        assert db.verify("v").ok


def test_a_part_that_was_not_open_yet_is_not_made_again(tmp_path: Path) -> None:
    path = tmp_path / "s"
    with tr.open(path, create=True, durable=False) as db:
        path.rename(tmp_path / "moved")
        with pytest.raises(NotAStore, match=GONE):
            inside(db).store.shard(1)
    assert not path.exists()
