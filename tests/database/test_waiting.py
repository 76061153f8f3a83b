"""Reads with `at_least` see the write of that position, or raise Timeout with the view's position."""

from __future__ import annotations

import json
import os
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

import tailrace as tr
from tailrace.errors import BadPosition, Timeout
from tailrace.store.lmdb.file_locks import held, read_holder


@pytest.fixture
def db(tmp_path: Path, spark: Any) -> Iterator[tr.Database]:
    with tr.open(tmp_path / "s", create=True, spark=spark, map_size=1 << 30) as database:
        database.sql("CREATE TABLE a (id INT PRIMARY KEY, g INT, v INT)")
        database.sql("CREATE MATERIALIZED VIEW sums AS SELECT g, SUM(v) AS s FROM a GROUP BY g")
        yield database


def test_a_writer_reads_its_own_writes_while_epochs_run(db: tr.Database) -> None:
    table, view = db.table("a"), db.view("sums")
    thread = threading.Thread(target=lambda: db.run(interval=0.01))
    thread.start()
    try:
        for number in range(1, 6):
            written = table.put({"id": number, "g": number % 2, "v": 1})
            assert sum(view.scan(at_least=written).column("s").to_pylist()) == 2 * number - 1
            written = table.update({"id": number, "v": 2})
            row = view.get(number % 2, at_least=written.transaction, timeout=None)
            assert row == {"g": number % 2, "s": 2 * ((number + 1) // 2)}
            assert view.get_many([number % 2], at_least=written).num_rows == 1
    finally:
        db.stop()
        thread.join()


def test_a_timeout_says_how_far_the_view_is_and_which_process_runs_epochs(db: tr.Database) -> None:
    table, view = db.table("a"), db.view("sums")
    covered = table.put({"id": 1, "g": 1, "v": 1})
    db.refresh()
    later = [table.put({"id": i, "g": 1, "v": 1}) for i in range(2, 5)][-1]
    assert view.get(1, at_least=covered, timeout=0) == {"g": 1, "s": 1}
    with pytest.raises(Timeout) as error:
        view.get(1, at_least=later, timeout=0.05)
    assert (error.value.wanted, error.value.covered, error.value.behind) == (later.transaction, covered.transaction, 3)
    assert error.value.waited >= 0.05
    assert "No process runs epochs" in str(error.value)
    with held(db.path, "runner"), pytest.raises(Timeout, match=rf"Process {os.getpid()} \(.*\) runs epochs"):
        view.scan(at_least=later, timeout=0)
    assert view.get(1) == {"g": 1, "s": 1}
    db.refresh()
    assert view.get(1, at_least=later, timeout=0) == {"g": 1, "s": 4}


@pytest.mark.parametrize("position", [7, -1, "1", 1.5])
def test_positions_that_no_write_returned(db: tr.Database, position: Any) -> None:
    with pytest.raises(BadPosition) as error:
        db.view("sums").get(1, at_least=position)
    assert error.value.newest == 0


def test_runner_names_the_process_that_runs_epochs(tmp_path: Path) -> None:
    assert read_holder(str(tmp_path), "runner") is None
    with held(str(tmp_path), "runner"):
        runner = read_holder(str(tmp_path), "runner")
        assert runner is not None
        assert runner.pid == os.getpid()
    assert read_holder(str(tmp_path), "runner") is None
    dead = {"pid": 4194305, "host": os.uname()[1], "started": None, "command": "x", "since": "y"}
    for note in ('{"pid": 1}', "[]", "{", json.dumps(dead)):
        (tmp_path / "runner.lock").write_text(note)
        assert read_holder(str(tmp_path), "runner") is None
