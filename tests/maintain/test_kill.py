"""SIGKILL at any moment loses no acknowledged write and leaves every view correct after the next refresh.

A process writes and runs epochs; it is killed for real, at random; whatever it said it had written must be
there, and the views must equal recomputation. Then the next process goes on with the same store.
"""

from __future__ import annotations

import random
import signal
import subprocess
import sys
import threading
from pathlib import Path
from typing import Any

import pytest

import tailrace as tr

VIEWS = {
    "totals": "SELECT g, SUM(v) AS s, COUNT(*) AS n, MIN(v) AS lo, MAX(v) AS hi FROM a GROUP BY g",
    "pairs": "SELECT a.id, b.id AS bid, a.v + b.v AS v FROM a JOIN b ON a.g = b.g",
    "lonely": "SELECT a.id, b.w FROM a LEFT JOIN b ON a.id = b.id",
    "spread": "SELECT g, stddev(v) AS sd, COUNT(DISTINCT v) AS vs FROM a GROUP BY g",
    "everything": "SELECT COUNT(*) AS n, SUM(v) AS s FROM a",
    "ranks": "SELECT id, rank() OVER (PARTITION BY g ORDER BY v) AS r, lead(v) OVER (ORDER BY g, id) AS l FROM a",
    "best": "SELECT id, v FROM a ORDER BY v DESC LIMIT 5 OFFSET 1",
}

CHOSEN = {  # recomputed in some epochs, or in all
    "auto_pairs": ("auto", VIEWS["pairs"]),
    "auto_spread": ("auto", "SELECT sd FROM (SELECT g, stddev(v) AS sd FROM a GROUP BY g)"),
    "ranked": ("full", "SELECT id, rank() OVER (PARTITION BY g ORDER BY v, id) AS r FROM a"),
}

WRITER = """
import random, sys
import tailrace as tr
from tailrace.maintain import epochs
db = tr.open(sys.argv[1], create=False)
db._epochs.small = int(sys.argv[3])
rng = random.Random(int(sys.argv[2]))
print("ready", flush=True)
while True:
    for _ in range(rng.randrange(1, 6)):
        name = rng.choice("ab")
        if rng.random() < 0.7:
            rows = [{"id": rng.randrange(60), "g": rng.randrange(6), ("v" if name == "a" else "w"): rng.randrange(100)}
                    for _ in range(rng.randrange(1, 20))]
            if name == "b":
                rows = [{**r, "v": r["w"]} for r in rows]
            print("+", name, repr({r["id"]: r for r in rows}), flush=True)
            db.table(name).put_many(rows)
        else:
            keys = [rng.randrange(60) for _ in range(5)]
            print("-", name, repr(keys), flush=True)
            db.table(name).delete_many(keys)
        print("ok", flush=True)
    db._epochs.overhead = rng.choice([-10**9, 10**9])
    epoch = db.refresh()
    print("epoch", epoch.number, flush=True)
"""


class Model:
    """What was acknowledged, and the one write that may or may not have been."""

    def __init__(self) -> None:
        self.tables: dict[str, dict[int, Any]] = {"a": {}, "b": {}}
        self.pending: tuple[str, str, Any] | None = None

    def read(self, line: str) -> None:
        word, _, rest = line.strip().partition(" ")
        if word in ("+", "-"):
            name, _, text = rest.partition(" ")
            self.pending = (word, name, eval(text))
        elif word == "ok" and self.pending:
            self.tables[self.pending[1]] = self.applied()[self.pending[1]]
            self.pending = None

    def applied(self) -> dict[str, dict[int, Any]]:
        """The tables if the pending write went through."""
        tables = {name: dict(rows) for name, rows in self.tables.items()}
        if self.pending:
            word, name, what = self.pending
            if word == "+":
                tables[name].update(what)
            else:
                for key in what:
                    tables[name].pop(key, None)
        return tables


def actual(db: tr.Database) -> dict[str, dict[int, Any]]:
    found = {}
    for name in "ab":
        rows = {r["id"]: {k: v for k, v in r.items() if v is not None} for r in db.table(name).scan().to_pylist()}
        found[name] = rows
    return found


def run_and_kill(path: Path, seed: int, small: int, model: Model, wait: float) -> int:
    """Start the writer, let it work, kill it; the number of epochs it saw."""
    command = [sys.executable, "-c", WRITER, str(path), str(seed), str(small)]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        epochs = 0
        killer: threading.Timer | None = None
        for line in process.stdout:
            model.read(line)
            epochs += line.startswith("epoch")
            if epochs and killer is None:
                killer = threading.Timer(wait, process.send_signal, [signal.SIGKILL])
                killer.start()
        assert process.wait(timeout=60) == -signal.SIGKILL
    return epochs


SIZES = pytest.mark.parametrize("small", [50_000, -1], ids=["one-task", "all-shards"])


@SIZES
def test_killed_processes_lose_nothing(tmp_path: Path, spark: Any, small: int) -> None:
    kill_and_check(tmp_path / "store", spark, small, rounds=2)


@pytest.mark.soak
@SIZES
def test_processes_killed_again_and_again(tmp_path: Path, spark: Any, small: int) -> None:
    kill_and_check(tmp_path / "store", spark, small, rounds=30)


def kill_and_check(path: Path, spark: Any, small: int, rounds: int) -> None:
    rng = random.Random(small)
    with tr.open(path, spark=spark, map_size=1 << 30) as db:
        db.sql("CREATE TABLE a (id INT PRIMARY KEY, g INT, v INT)")
        db.sql("CREATE TABLE b (id INT PRIMARY KEY, g INT, v INT, w INT)")
        for name, sql in VIEWS.items():
            db.sql(f"CREATE MATERIALIZED VIEW {name} AS {sql}")
        for name, (policy, sql) in CHOSEN.items():
            db.sql(f"CREATE MATERIALIZED VIEW {name} WITH (refresh = '{policy}') AS {sql}")
    model = Model()
    for seed in range(rounds):
        assert run_and_kill(path, seed, small, model, rng.uniform(0.0, 2.5)) > 0
        with tr.open(path, create=False, spark=spark) as db:
            found = actual(db)
            assert found in (model.tables, model.applied())
            model.tables, model.pending = found, None
            db.refresh()
            assert db.status().lag_operations == 0
            for name in db.views():
                report = db.verify(name)
                assert report.ok, report
