"""Snapshots show views and tables at one cut however many epochs follow, and keep the log and undo records for that."""

from __future__ import annotations

import subprocess
import sys
import threading
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

import tailrace as tr
from tailrace.catalog.construction import DROPPING
from tailrace.database.inside import inside
from tailrace.errors import Closed, Ended, Timeout, UnknownName

VIEWS = {
    "sums": "SELECT g, SUM(v) AS s, COUNT(*) AS n FROM a GROUP BY g",
    "pairs": "SELECT a.id, b.v AS w FROM a JOIN b ON a.id = b.id",
    "bag": "SELECT g FROM a",
    "tops": "SELECT id, v FROM a ORDER BY v DESC LIMIT 3",
}


@pytest.fixture
def db(tmp_path: Path, spark: Any) -> Iterator[tr.Database]:
    with tr.open(tmp_path / "s", create=True, spark=spark, map_size=1 << 30) as database:
        for name in "ab":
            database.sql(f"CREATE TABLE {name} (id INT PRIMARY KEY, g INT, v INT)")
        for name, sql in VIEWS.items():
            database.sql(f"CREATE MATERIALIZED VIEW {name} AS {sql}")
        step(database, 0)
        yield database


def step(db: tr.Database, number: int) -> tr.Written:
    """Runs an epoch that inserts, changes and deletes rows, and moves rows to other groups."""
    with db.transaction() as t:
        t.table("a").put_many([{"id": i, "g": (i + number) % 3, "v": i * number} for i in range(number, number + 10)])
        t.table("b").put_many([{"id": i, "g": 0, "v": number} for i in range(number, number + 5)])
        t.table("a").delete_many([number - 1, number + 4])
    db.refresh()
    return t.written


Source = tr.Database | tr.Snapshot


def read_all(source: Source) -> dict[str, Any]:
    """Everything that can be read: rows of views and tables, by key and by scan."""
    keys = list(range(-2, 30))
    content: dict[str, Any] = {name: source.view(name).scan().to_pylist() for name in VIEWS}
    content["bag"] = sorted(row["g"] for row in content["bag"])
    content["one by one"] = [source.view("sums").get(g) for g in range(4)]
    content["many"] = source.view("pairs").get_many(keys).to_pylist()
    for name in "ab":
        table = source.table(name)
        content[name] = sorted(table.scan().to_pylist(), key=lambda row: row["id"])
        content[f"{name} by key"] = [row for key in keys if (row := table.get(key)) is not None]
        assert table.get_many(keys).to_pylist() == content[f"{name} by key"] == content[name]
    return content


def test_a_snapshot_does_not_change_while_epochs_run(db: tr.Database) -> None:
    with db.snapshot() as first:
        was = read_all(db)
        assert read_all(first) == was
        for number in range(1, 4):
            step(db, number)
            assert read_all(first) == was != read_all(db)
        with db.snapshot() as second:
            now = read_all(db)
            db.table("a").delete_many(list(range(20)))
            assert (read_all(first), read_all(second)) == (was, now)
            db.refresh()
            assert (read_all(first), read_all(second)) == (was, now)
            assert (first.epoch + 3, first.position + 3) == (second.epoch, second.position)
        assert read_all(first) == was


def test_a_snapshot_answers_sql_at_its_cut(db: tr.Database) -> None:
    sql = "SELECT (SELECT SUM(s) FROM sums) AS kept, (SELECT SUM(v) FROM a) AS computed, COUNT(*) AS n FROM pairs"
    with db.snapshot() as snapshot:
        was = db.query(sql).to_pylist()
        step(db, 1)
        assert snapshot.query(sql).to_pylist() == was != db.query(sql).to_pylist()
        assert was[0]["kept"] == was[0]["computed"]


def test_a_snapshot_keeps_its_catalog_while_views_and_tables_are_created_replaced_and_dropped(db: tr.Database) -> None:
    with db.snapshot() as snapshot:
        was = read_all(snapshot)
        db.sql("CREATE MATERIALIZED VIEW later AS SELECT id FROM a; CREATE TABLE c (id INT PRIMARY KEY)")
        assert (snapshot.tables(), snapshot.views()) == (["a", "b"], sorted(VIEWS))
        with pytest.raises(UnknownName):
            snapshot.view("later")
        with pytest.raises(UnknownName):
            snapshot.table("c")
        db.sql("CREATE OR REPLACE MATERIALIZED VIEW sums AS SELECT g, COUNT(*) AS other FROM a GROUP BY g")
        db.sql("DROP VIEW pairs; DROP VIEW tops")
        step(db, 1)
        assert read_all(snapshot) == was
        db.sql("DROP TABLE b")
        assert snapshot.view("pairs").scan().num_rows
        for read in (snapshot.table("b").scan, lambda: snapshot.table("b").get(1)):
            with pytest.raises(UnknownName):
                read()
    db.refresh()  # the next epoch removes what was kept only for the snapshot
    assert inside(db).store.document(DROPPING) is None


def test_an_ended_snapshot_refuses_reads(db: tr.Database) -> None:
    with db.snapshot() as snapshot:
        view, table = snapshot.view("sums"), snapshot.table("a")
        rows = table.batches()
        next(rows)
    reads: list[Callable[[], Any]] = [
        lambda: view.get(1),
        view.scan,
        lambda: table.get(1),
        table.scan,
        lambda: list(rows),
        lambda: snapshot.query("SELECT * FROM a"),
        lambda: snapshot.view("sums"),
        lambda: snapshot.epoch,
    ]
    for read in reads:
        with pytest.raises(Ended):
            read()
    snapshot.close()
    assert db.status().pins == []


def test_a_snapshot_ends_with_its_store(tmp_path: Path, spark: Any) -> None:
    first = tr.open(tmp_path / "x", create=True, spark=spark, map_size=1 << 28)
    second = tr.open(tmp_path / "x", spark=spark)
    with first.snapshot() as snapshot:
        assert len(second.status().pins) == 1
        first.close()
        with pytest.raises(Closed):
            snapshot.tables()
    assert second.status().pins == []
    second.close()


def test_a_snapshot_waits_for_a_position_or_times_out(db: tr.Database) -> None:
    written = step(db, 1)
    with db.snapshot(at_least=written) as snapshot:
        assert snapshot.position >= written.transaction
        assert snapshot.view("sums").scan(at_least=written).num_rows == 3
        later = db.table("a").put({"id": 99, "g": 1})
        with pytest.raises(Timeout) as error:
            snapshot.view("sums").get(1, at_least=later)
        assert (error.value.wanted, error.value.covered) == (later.transaction, snapshot.position)
    with pytest.raises(Timeout):
        db.snapshot(at_least=later, timeout=0)
    assert db.status().pins == []


def test_many_threads_read_one_snapshot(db: tr.Database) -> None:
    with db.snapshot() as snapshot:
        was = read_all(snapshot)
        stop, failures = threading.Event(), []

        def read() -> None:
            while not stop.is_set():
                if (now := read_all(snapshot)) != was:
                    failures.append(now)

        threads = [threading.Thread(target=read) for _ in range(3)]
        for thread in threads:
            thread.start()
        for number in range(1, 4):
            step(db, number)
        stop.set()
        for thread in threads:
            thread.join()
        assert failures == []


def kept_entries(db: tr.Database) -> tuple[int, int]:
    """The number of log entries, and of undo entries in all shards."""
    undos = 0
    for number in range(inside(db).store.shards):
        environment = inside(db).store.shard(number)._env  # type: ignore[attr-defined]
        with environment.read() as txn:
            undos += txn.stat(environment.databases["undo"])["entries"]
    with inside(db).store.environment.read() as txn:
        return int(txn.stat(inside(db).store.environment.databases["log"])["entries"]), undos


def test_log_and_undo_records_are_removed_after_a_snapshot_ends(db: tr.Database) -> None:
    for number in (1, 2):
        step(db, number)
    log, undos = kept_entries(db)
    with db.snapshot():
        for number in range(3, 8):
            step(db, number)
        assert kept_entries(db)[0] > log == 0
        assert kept_entries(db)[1] > 2 * undos
    step(db, 8)
    assert kept_entries(db)[0] == 0
    assert kept_entries(db)[1] <= 2 * undos


HOLDER = """
import sys, tailrace as tr
snapshot = tr.open(sys.argv[1]).snapshot()
print(snapshot.epoch, sorted(r["g"] for r in snapshot.view("sums").scan().to_pylist()), flush=True)
for _ in sys.stdin:
    print([snapshot.table("a").get(i)["v"] for i in range(3)], snapshot.view("sums").get(1)["n"], flush=True)
"""


def test_a_snapshot_of_another_process_lasts_until_that_process_is_killed(db: tr.Database) -> None:
    command = [sys.executable, "-c", HOLDER, db.path]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as other:
        assert other.stdin is not None
        assert other.stdout is not None
        assert other.stdout.readline() == f"{db.status().epoch} [0, 1, 2]\n"
        was = f"{[db.table('a').get(i)['v'] for i in range(3)]} {db.view('sums').get(1)['n']}\n"  # type: ignore[index]
        for number in (1, 2, 3):
            step(db, number)
            print(file=other.stdin, flush=True)
            assert other.stdout.readline() == was
        assert kept_entries(db)[0] > 0
        assert [pin["pid"] for pin in db.status().pins] == [other.pid]
        other.kill()
    step(db, 4)
    assert (kept_entries(db)[0], db.status().pins) == (0, [])
