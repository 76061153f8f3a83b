"""Recordings of Tailrace itself: every class of view is strongly consistent, and all views with each other."""

from __future__ import annotations

import json
import os
import random
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner

import tailrace as tr
from tailrace.cli.app import app
from tailrace.database.inside import inside
from tailrace.errors import StoreError, UnknownName
from tailrace.store.commits import EPOCHS
from tailrace.store.pins import PINS
from tailrace.verify.history import recorder
from tailrace.verify.history.history_file import Line, Reader
from tailrace.verify.history.verdict import Level

TABLES = """
    CREATE TABLE o (id INT PRIMARY KEY, c INT, p DECIMAL(8,2), x DOUBLE);
    CREATE TABLE k (c INT PRIMARY KEY, name STRING)
"""
VIEWS = {
    "selection": "SELECT id, c, x FROM o WHERE c < 3",
    "projection": "SELECT c, x FROM o",
    "sums": "SELECT c, SUM(p) AS s, COUNT(*) AS n, AVG(x) AS a FROM o GROUP BY c",
    "extremes": "SELECT c, MIN(x) AS low, MAX(p) AS high FROM o GROUP BY c",
    "joined": "SELECT o.id, o.p, k.name FROM o JOIN k ON o.c = k.c",
    "outer_joined": "SELECT o.id, k.c, k.name FROM o FULL JOIN k ON o.c = k.c",
    "different": "SELECT DISTINCT c, x FROM o",
    "without": "SELECT c FROM o EXCEPT ALL SELECT c FROM k",
    "first_rows": "SELECT id, x FROM o ORDER BY x LIMIT 3",
    "numbered": "SELECT id, row_number() OVER (PARTITION BY c ORDER BY x) AS r FROM o",
    "over_sums": "SELECT n, SUM(s) AS t FROM sums GROUP BY n",
    "listed": "SELECT c, sort_array(collect_list(x)) AS xs FROM o GROUP BY c",
}


def random_write(rng: random.Random, db: tr.Database) -> None:
    """Puts or deletes rows of a few keys, one or several in one transaction."""
    orders = db.table("o")
    match rng.randrange(5):
        case 0:
            orders.delete_many(rng.sample(range(8), 2))
        case 1:
            db.table("k").put({"c": rng.randrange(4), "name": f"n{rng.randrange(5)}"})
        case 2:
            db.table("k").delete(rng.randrange(4))
        case _:
            orders.put_many([order(rng, key) for key in rng.sample(range(8), rng.randrange(1, 4))])


def order(rng: random.Random, key: int) -> dict[str, Any]:
    x = rng.choice([None, 0.0, -0.0, 0.1, 0.2, 7.5, float("nan")])
    return {"id": key, "c": rng.choice([None, 0, 1, 2, 3]), "p": f"{rng.randrange(999) / 100:.2f}", "x": x}


def write_until(stop: Callable[[], bool], db: tr.Database, seed: int) -> None:
    rng = random.Random(seed)
    while not stop():
        random_write(rng, db)


def wait_until(condition: Callable[[], Any], what: str) -> None:
    end = time.monotonic() + 60
    while not condition():
        assert time.monotonic() < end, f"waited for: {what}"
        time.sleep(0.02)


@contextmanager
def writing(db: tr.Database, tmp_path: Path) -> Iterator[None]:
    """Runs two threads and a process that write all the time."""
    stop, flag = threading.Event(), tmp_path / "stop"
    threads = [threading.Thread(target=write_until, args=(stop.is_set, db, seed)) for seed in range(2)]
    code = (
        "import sys, pathlib, tailrace, test_recording as t\n"
        "db = tailrace.open(sys.argv[1])\n"
        "t.write_until(pathlib.Path(sys.argv[2]).exists, db, 7)\n"
    )
    here = Path(__file__).parent
    path = os.pathsep.join([str(here), str(here.parent), str(here.parent.parent)])
    writer = subprocess.Popen([sys.executable, "-c", code, db.path, str(flag)], env={**os.environ, "PYTHONPATH": path})
    try:
        wait_until(lambda: any(db.table(name).scan().num_rows for name in "ok"), "the other process writes")
        for thread in threads:
            thread.start()
        yield
    finally:
        stop.set()
        flag.touch()
        for thread in threads:
            thread.join()
        assert writer.wait(60) == 0


@pytest.fixture
def db(tmp_path: Path, spark: Any) -> Iterator[tr.Database]:
    with tr.open(tmp_path / "store", create=True, spark=spark, nodes=3, map_size=1 << 28, durable=False) as opened:
        opened.sql(TABLES)
        yield opened


def lines(path: Path, kind: str) -> list[Line]:
    return [line for _, line in Reader(path).lines() if line.kind == kind]


def create(db: tr.Database, *names: str) -> None:
    for name in names:
        db.sql(f"CREATE MATERIALIZED VIEW {name} AS {VIEWS[name]}")


def test_every_class_of_view_is_strong_during_concurrent_writes(db: tr.Database, tmp_path: Path, spark: Any) -> None:
    create(db, *VIEWS)
    with writing(db, tmp_path), db.record(tmp_path / "h.arrow") as recording:
        for _ in range(3):
            db.refresh()
    assert recording.epochs == 3
    checked = tr.check(tmp_path / "h.arrow", spark=spark)
    assert checked.certified
    assert checked.ok, checked.verdict
    assert (checked.verdict.level, checked.verdict.snapshot) == (Level.STRONG, True)
    assert (checked.epochs, set(checked.verdict.views)) == (4, set(VIEWS))
    assert checked.transactions > checked.epochs


def test_chosen_views_with_a_task_for_every_shard(db: tr.Database, tmp_path: Path, spark: Any) -> None:
    create(db, "sums", "over_sums", "projection")
    inside(db).epochs.jobs.small = -1
    rng = random.Random(3)
    with db.record(tmp_path / "h.arrow", ["over_sums", "PROJECTION"]):
        for _ in range(3):
            for _ in range(rng.randrange(1, 9)):
                random_write(rng, db)
            db.refresh()
    checked = tr.check(tmp_path / "h.arrow", spark=spark)
    assert checked.ok, checked.verdict
    assert set(checked.verdict.views) == {"over_sums", "projection"}
    assert {line.name for line in lines(tmp_path / "h.arrow", "base")} <= {"o"}


def test_every_epoch_is_recorded_however_late_it_is_read(
    db: tr.Database, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(recorder, "POLL_SECONDS", 3600.0)
    create(db, "selection")
    with db.record(tmp_path / "h.arrow"):
        for number in range(40):  # more than the store retains without a pin
            db.table("o").put({"id": number % 2, "c": 1, "x": float(number)})
            db.refresh()
        assert len(inside(db).store.documents(EPOCHS)) == 40
    epochs = lines(tmp_path / "h.arrow", "epoch")
    assert [line.transaction for line in epochs] == list(range(41))
    shown = [json.loads(line.row or "")["x"] for line in lines(tmp_path / "h.arrow", "view")]
    assert shown == [float(number) for number in range(40)]
    db.table("o").put({"id": 1, "c": 1, "x": 0.5})
    db.refresh()
    assert len(inside(db).store.documents(EPOCHS)) == 32
    assert inside(db).store.documents(PINS) == {}


def test_what_cannot_be_recorded(db: tr.Database, tmp_path: Path) -> None:
    with pytest.raises(StoreError, match="no view to record"):
        db.record(tmp_path / "h.arrow")
    with pytest.raises(UnknownName):
        db.record(tmp_path / "h.arrow", ["nosuch"])
    create(db, "selection")
    with pytest.raises(StoreError, match="No such file or directory"), db.record(tmp_path / "no" / "such" / "h.arrow"):
        pass
    with pytest.raises(StoreError, match="is a directory"), db.record(tmp_path, overwrite=True):
        pass
    with (
        pytest.raises(StoreError, match="'selection' was dropped, renamed or replaced"),
        db.record(tmp_path / "h.arrow"),
    ):
        db.drop("selection")
    assert len(lines(tmp_path / "h.arrow", "epoch")) == 1  # the file keeps everything up to the drop
    assert inside(db).store.documents(PINS) == {}


def test_an_existing_file_is_overwritten_only_on_request(db: tr.Database, tmp_path: Path) -> None:
    create(db, "sums")
    path = tmp_path / "h.arrow"
    path.write_text("mine")
    command = ["record", db.path, str(path), "--seconds", "0"]
    refused = CliRunner().invoke(app, command)
    assert refused.exit_code == 1
    assert "already exists" in refused.stderr
    assert "--overwrite" in refused.stderr
    assert (path.read_text(), [p.name for p in tmp_path.glob("*h.arrow*")]) == ("mine", ["h.arrow"])
    assert CliRunner().invoke(app, [*command, "--overwrite"]).exit_code == 0
    assert len(lines(path, "epoch")) == 1


def test_a_file_that_appears_during_the_recording_is_kept(db: tr.Database, tmp_path: Path) -> None:
    create(db, "sums")
    path = tmp_path / "h.arrow"
    with pytest.raises(StoreError, match="written by another process meanwhile") as caught, db.record(path):
        path.write_text("mine")
    assert path.read_text() == "mine"
    assert len(lines(Path(caught.value.path), "epoch")) == 1


def test_the_command_line_records_and_checks(db: tr.Database, tmp_path: Path, spark: Any) -> None:
    create(db, "sums")
    path = tmp_path / "h.arrow"
    command = [sys.executable, "-m", "tailrace", "record", db.path, str(path), "sums", "--json"]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as process:
        wait_until(lambda: inside(db).store.documents(PINS), "the recording begins")
        for c in (1, 2):
            db.table("o").put({"id": 1, "c": c, "p": "1.50"})
            db.refresh()
        process.send_signal(signal.SIGINT)
        output, _ = process.communicate(timeout=60)
    assert process.returncode == 0
    assert json.loads(output) == {"path": str(path), "first": 0, "last": 2, "epochs": 2}
    assert (path.stat().st_mode & 0o777) == 0o600
    result = CliRunner().invoke(app, ["check", str(path), "--json"])
    assert result.exit_code == 0, result.output
    document = json.loads(result.stdout)
    assert (document["ok"], document["level"], document["snapshot"], document["epochs"]) == (True, "complete", None, 3)
    assert "sums: completely consistent" in CliRunner().invoke(app, ["check", str(path)]).stdout
    missing = CliRunner().invoke(app, ["check", str(tmp_path / "nosuch")])
    assert missing.exit_code == 1
