"""Store faults that need no Spark job: damage, read-only directories, clock jumps, half-created stores."""

from __future__ import annotations

import ctypes
import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
from pyspark.sql import SparkSession

import tailrace as tr
from tailrace.database.inside import inside
from tailrace.errors import Corrupt, OffsetGap
from tailrace.store.base import Cut, Store

PR_CAPBSET_DROP, CAP_DAC_OVERRIDE, CAP_DAC_READ_SEARCH = 24, 1, 2


@pytest.fixture
def db(tmp_path: Path) -> Iterator[tr.Database]:
    with tr.open(tmp_path / "store", create=True, map_size=1 << 28) as made:
        made.sql("CREATE TABLE a (id INT PRIMARY KEY, v INT)")
        yield made


def nothing(store: Store) -> Cut:
    return Cut(0, (0,) * store.nodes)


def test_no_damage_to_a_log_entry_goes_unseen(db: tr.Database) -> None:
    """Every byte is covered, the header too: an entry with a wrong table id would be missing from the epoch."""
    db.table("a").put({"id": 1, "v": 2})
    store = inside(db).store
    with store.environment.read() as txn, txn.cursor(store.environment.databases["log"]) as cursor:
        ((key, whole),) = [(bytes(k), bytes(v)) for k, v in cursor]
    flipped = [whole[:i] + bytes([whole[i] ^ 1 << bit]) + whole[i + 1 :] for i in range(len(whole)) for bit in (0, 7)]
    for damaged in [*flipped, *(whole[:length] for length in range(len(whole)))]:
        with store.environment.write() as txn:
            txn.put(key, damaged, db=store.environment.databases["log"])
        with pytest.raises(Corrupt) as error:
            store.touched(nothing(store), store.newest_cut())
        assert error.value.where.startswith("log entry 0 of node ")
    with store.environment.write() as txn:
        txn.put(key, whole, db=store.environment.databases["log"])
    assert sum(store.touched(nothing(store), store.newest_cut()).values()) == 1


def test_rows_at_a_cut_whose_log_is_gone(db: tr.Database) -> None:
    """A late task must not mistake the current rows for the rows at its cut."""
    table, store = db.table("a"), inside(db).store
    table.put_many([{"id": i, "v": i} for i in range(10)])
    then = store.newest_cut()
    table.put_many([{"id": i, "v": -i} for i in range(10)])
    definition = inside(db).catalog.table("a")
    assert sum(b.num_rows for n in range(store.nodes) for b in store.rows(definition, n, then, [0, 1])) == 10
    store.trim(store.newest_cut())
    for node in range(store.nodes):
        with pytest.raises(OffsetGap):
            list(store.rows(definition, node, then, [0, 1]))


def test_without_a_damaged_entry_all_goes_on(tmp_path: Path, spark: SparkSession) -> None:
    sql = "CREATE MATERIALIZED VIEW total AS SELECT COUNT(*) AS n, SUM(v) AS s FROM a"
    with tr.open(tmp_path / "store", create=True, spark=spark, map_size=1 << 28) as db:
        db.sql("CREATE TABLE a (id INT PRIMARY KEY, v INT)")
        db.sql(sql)
        db.table("a").put_many([{"id": i, "v": i} for i in range(10)])
        store = inside(db).store
        with store.environment.write() as txn, txn.cursor(store.environment.databases["log"]) as cursor:
            cursor.first()
            txn.put(cursor.key(), cursor.value()[:-1], db=store.environment.databases["log"])
        for _ in range(2):
            with pytest.raises(Corrupt):
                db.refresh()
        assert db.view("total").scan().to_pylist() == [{"n": 0, "s": None}]
        db.sql("DROP VIEW total")
        db.refresh()
        db.sql(sql)
        assert db.view("total").scan().to_pylist() == [{"n": 10, "s": 45}]
        db.table("a").put({"id": 10, "v": 5})
        db.refresh()
        assert db.view("total").scan().to_pylist() == [{"n": 11, "s": 50}]


def _obey_permissions() -> None:
    """Makes file permissions apply to a process of root as well."""
    if os.geteuid() == 0:
        for capability in (CAP_DAC_OVERRIDE, CAP_DAC_READ_SEARCH):
            assert ctypes.CDLL(None).prctl(PR_CAPBSET_DROP, capability, 0, 0, 0) == 0


@contextmanager
def read_only(path: Path) -> Iterator[None]:
    modes = {p: p.stat().st_mode for p in (path, *path.rglob("*"))}
    for file, mode in modes.items():
        file.chmod(mode & ~0o222)
    try:
        yield
    finally:
        for file, mode in modes.items():
            file.chmod(mode)


@pytest.mark.parametrize(
    "script",
    [
        "tr.open(path).table('a').put({'id': 1, 'v': 1})",
        "tr.open(path).table('a').get(1)",
        "tr.open(path).refresh()",
        "tr.open(path, map_size=1 << 40)",
        "tr.open(path + '/new', create=True)",
        "held(path, 'runner').__enter__()",
    ],
)
def test_a_read_only_directory_is_named(tmp_path: Path, script: str) -> None:
    path = tmp_path / "store"
    with tr.open(path, create=True, map_size=1 << 28) as db:
        db.sql("CREATE TABLE a (id INT PRIMARY KEY, v INT)")
        db.table("a").put({"id": 7, "v": 8})
    text = f"import sys, tailrace as tr\nfrom tailrace.store.lmdb.file_locks import held\npath = sys.argv[1]\n{script}"
    with read_only(path):
        command = [sys.executable, "-c", text, str(path)]
        env = {**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)}
        result = subprocess.run(command, env=env, capture_output=True, text=True, preexec_fn=_obey_permissions)
    assert result.returncode == 1
    assert "tailrace.errors.ReadOnly: " in result.stderr, result.stderr
    with tr.open(path) as db:
        assert db.table("a").get(7) == {"id": 7, "v": 8}
        db.table("a").put({"id": 1, "v": 1})


def test_a_store_whose_making_was_killed_is_made_by_the_next(tmp_path: Path) -> None:
    (tmp_path / "shards").mkdir()
    (tmp_path / ".store.json.123").write_text("{")
    with tr.open(tmp_path, create=True) as db:
        assert db.tables() == []


def test_a_clock_that_jumps(tmp_path: Path, spark: SparkSession, monkeypatch: pytest.MonkeyPatch) -> None:
    real = time.time
    with tr.open(tmp_path / "store", create=True, spark=spark, map_size=1 << 28) as db:
        db.sql("CREATE TABLE a (id INT PRIMARY KEY, v INT)")
        db.sql("CREATE MATERIALIZED VIEW total AS SELECT COUNT(*) AS n, SUM(v) AS s FROM a")
        for number, jump in enumerate([0, -1e6, 1e6, -1e10, 1e9, 0]):
            monkeypatch.setattr(time, "time", lambda jump=jump: real() + jump)
            db.table("a").put({"id": number, "v": 1})
            for later in (0, -1e7, 1e7):
                monkeypatch.setattr(time, "time", lambda at=jump + later: real() + at)
                assert db.status().lag_seconds >= 0
            epoch = db.refresh()
            assert epoch.number == number + 1
            assert 0 <= epoch.seconds < 600
            assert db.view("total").scan().to_pylist() == [{"n": number + 1, "s": number + 1}]
        assert all(e["seconds"] >= 0 for e in db.status().epochs)
        assert db.verify("total").ok


def test_a_killed_writer_lets_the_next_one_write(tmp_path: Path) -> None:
    """If the holder of LMDB's lock dies in the middle of a write, the next writer gets the lock."""
    path, faults = tmp_path / "store", tmp_path / "faults"
    faults.mkdir()
    with tr.open(path, create=True, map_size=1 << 28) as db:
        db.sql("CREATE TABLE a (id INT PRIMARY KEY, v INT)")
        script = "import sys, tailrace\ntailrace.open(sys.argv[1]).table('a').put({'id': 1, 'v': 1})"
        env = {**os.environ, "PYTHONPATH": os.pathsep.join(sys.path), "TAILRACE_FAULTS": str(faults)}
        for point, expected_row in [("write.commit", None), ("write.committed", {"id": 1, "v": 1})]:
            (faults / point).write_text("kill@1")
            ended = subprocess.run([sys.executable, "-c", script, str(path)], env=env)
            assert ended.returncode == -signal.SIGKILL
            assert db.table("a").get(1) == expected_row
            assert db.table("a").put({"id": 2, "v": 1}).operations == 1
