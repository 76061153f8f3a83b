"""A store under faults: writer, reader and runner processes, and the check that no write is lost or applied twice."""

from __future__ import annotations

import os
import random
import sys
import time
from collections.abc import Sequence
from pathlib import Path
from types import TracebackType

from fault_oracle import differences
from fault_processes import Child, Rows, Writer, until
from pyspark.sql import SparkSession

import tailrace as tr
from tailrace.database.inside import inside
from tailrace.epochs.model import INTENT
from tailrace.store.commits import read_committed

POISON = 2**31 - 1  # no writer writes this value; the view `fragile` fails on it
POISONED = 900_000  # the key of a row with that value; no writer owns it
VIEWS = {
    "totals": "SELECT g, SUM(v) AS s, COUNT(*) AS n, MIN(v) AS lo, MAX(v) AS hi FROM a GROUP BY g",
    "everything": "SELECT COUNT(*) AS n, SUM(v) AS s FROM a",
    "pairs": "SELECT a.id, b.id AS bid, a.v + b.v AS v FROM a JOIN b ON a.g = b.g AND a.id < b.id",
    "lonely": "SELECT a.id, b.v, a.g FROM a LEFT JOIN b ON a.id = b.id",
    "middles": "SELECT g, percentile(v, 0.5) AS m, COUNT(DISTINCT v % 7) AS d FROM b GROUP BY g",
    "ranks": "SELECT id, rank() OVER (PARTITION BY g ORDER BY v) AS r FROM a",
    "best": "SELECT id, v FROM a ORDER BY v DESC LIMIT 5 OFFSET 1",
    "fragile": f"SELECT id, g, CASE WHEN v = {POISON} THEN CAST(raise_error('poison') AS INT) ELSE v END AS v FROM a",
    "over_fragile": "SELECT g, SUM(v) AS s FROM fragile GROUP BY g",
}
CHOSEN = {  # views with a refresh policy: recomputed in some epochs, or in all
    "auto_counts": ("auto", "SELECT b.g, COUNT(*) AS n FROM a JOIN b ON a.id = b.id GROUP BY b.g"),
    "ranked": ("full", "SELECT id, rank() OVER (PARTITION BY g ORDER BY v, id) AS r FROM b"),
}
WRITERS = 2
CHUNK = 25  # table rows per build epoch


class Bench:
    """One store under faults.

    `small` is the largest epoch that runs as one task, without shuffles. `master` is the runner's Spark master.
    """

    driver_points: Sequence[str] = ("epoch.intent", "epoch.work", "epoch.commit", "epoch.committed", "log.trim")
    task_points: Sequence[str] = ("task.apply", "shard.commit", "shard.committed", "task.applied")
    pause = 0.02  # seconds between two looks at the status

    def __init__(self, path: Path, spark: SparkSession, small: int, master: str, **env: str) -> None:
        self.path, self.faults = path, path / "faults"
        self.faults.mkdir(parents=True, exist_ok=True)
        self.small, self.master = small, master
        self.env = env
        self.seed = 0
        self.moment = time.monotonic()  # when the last fault happened
        self.db = self.open(spark)
        self.store = self.db.path
        inside(self.db).builder.chunk = CHUNK
        for name in "ab":
            self.db.sql(f"CREATE TABLE {name} (id INT PRIMARY KEY, g INT, v INT)")
        for name, sql in VIEWS.items():
            self.db.sql(f"CREATE MATERIALIZED VIEW {name} AS {sql}")
        for name, (policy, sql) in CHOSEN.items():
            self.db.sql(f"CREATE MATERIALIZED VIEW {name} WITH (refresh = '{policy}') AS {sql}")
        self.operations = 0  # written by writers that have died
        self.writers = [self._writer(n, {"a": {}, "b": {}}) for n in range(WRITERS)]
        self.reader = self.child("fault_reader.py")
        self.runner = self.start_runner()

    def open(self, spark: SparkSession) -> tr.Database:
        return tr.open(self.path / "store", create=True, spark=spark, map_size=1 << 30)

    def __enter__(self) -> Bench:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        for child in (*self.writers, self.reader, self.runner):
            child.end()
        self.db.close()

    # processes

    def child_environment(self) -> dict[str, str]:
        return {**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)}

    def child(self, program: str, *arguments: object) -> Child:
        return Child(self.path / f"{program}.log", self.faults, program, self.store, *arguments, **self.env)

    def start_runner(self) -> Child:
        return self.child("fault_runner.py", self.small, CHUNK, self.master)

    def restart_runner(self) -> None:
        self.runner = self.start_runner()
        self.runner.wait_for("ready")

    def _writer(self, number: int, rows: Rows) -> Writer:
        self.seed += 1
        return Writer(self.path / "writer.log", self.faults, self.store, number * 1000, self.seed, rows)

    def restart_writer(self, number: int) -> None:
        """Replaces a writer that died. The tables show whether its last write was committed."""
        dead = self.writers[number]
        stored = self.rows(number)
        assert self.may_remain(dead, stored), "an acknowledged write was lost, or a write was applied in part"
        if dead.pending is not None and stored != dead.rows:
            _, name, _ = dead.pending
            before, after = dead.rows[name], stored[name]
            self.operations += sum(before.get(k) != after.get(k) for k in before.keys() | after.keys())
        self.operations += dead.operations
        self.writers[number] = self._writer(number, stored)

    def may_remain(self, dead: Writer, stored: Rows) -> bool:
        """Whether a writer that died may have left these rows."""
        return stored in (dead.rows, dead.applied())

    def rows(self, number: int) -> Rows:
        """The table rows with the keys of one writer."""
        tables = {name: self.db.table(name).scan().to_pylist() for name in "ab"}
        return {name: {r["id"]: r for r in rows if r["id"] // 1000 == number} for name, rows in tables.items()}

    def write(self, rng: random.Random, least: int = 3, most: int = 12) -> None:
        """Asks every writer to write some transactions, without waiting for them."""
        for writer in self.writers:
            writer.write(rng.randrange(least, most))

    def written(self) -> None:
        """Waits until the writers have written what they were asked."""
        for writer in self.writers:
            if writer.asked:
                writer.wait_for("done", writer.asked)

    # faults

    def arm(self, point: str, action: str, passing: int = 1) -> None:
        draft = self.faults / f".{point}"
        draft.write_text(f"{action}@{passing}")
        draft.rename(self.faults / point)

    def met(self, point: str) -> int | None:
        """The process that ran into the fault, or None."""
        word, _, pid = (self.faults / point).read_text().partition(" ")
        return int(pid) if word == "met" else None

    def wait_until_met(self, point: str) -> int:
        pid = until(lambda: self.met(point), f"a process to pass {point}", lambda: self.runner.said[-3:])
        assert pid is not None
        self.moment = time.monotonic()
        return pid

    def disarm(self) -> None:
        for armed in self.faults.iterdir():
            armed.unlink()

    # the check

    def failed(self) -> set[str]:
        """The views that have failed."""
        return {view["name"] for view in self.db.status().views if view["failed"]}

    def settle(self, failing: frozenset[str] = frozenset()) -> None:
        """Waits until the views include every write and every build is done. Only `failing` views have failed."""
        self.written()
        store = inside(self.db).store
        position = store.position(self.newest_position())

        def settled() -> bool:
            if not self.runner.alive:
                raise AssertionError(
                    f"the runner ended: {self.runner.said[-3:]}, {self.runner.log.read_text()[-3000:]}"
                )
            now = self.db.status()
            is_idle = store.document(INTENT) is None and read_committed(store).cut.covers(position)
            return now.lag_operations == 0 and not now.building and is_idle and self.failed() == failing

        until(settled, "views to have everything", lambda: (self.db.status(), self.runner.said[-3:]), self.pause)

    def newest_position(self) -> int:
        """A position that includes all writes that were acknowledged."""
        return inside(self.db).store.newest_cut().transaction

    def check(self) -> None:
        """No acknowledged write is lost, none is applied twice, all views are right, the reader saw no wrong state."""
        for number, writer in enumerate(self.writers):
            assert self.rows(number) == writer.rows, f"writer {number}"
        self.check_log()
        assert self.reader.alive, self.reader.log.read_text()
        assert not self.reader.count("wrong"), self.reader.last("wrong")
        a, b = (self.db.table(name).scan().to_pylist() for name in "ab")
        for name in sorted(set(self.db.views()) - self.failed()):
            missing, extra = differences(name, self.db.view(name).scan().to_pylist(), a, b)
            assert not missing, (name, missing, extra)
            assert not extra, (name, missing, extra)
        self.disarm()

    def check_log(self) -> None:
        """The log has each operation once."""
        logged = inside(self.db).store.newest_cut().operations
        assert logged == self.operations + sum(w.operations for w in self.writers)

    def verify(self, *views: str) -> None:
        """Verifies some views, or all, with Spark."""
        for name in views or self.db.views():
            report = self.db.verify(name)
            assert report.ok, report


def recovered(bench: Bench, what: str) -> float:
    """Settles and checks; returns the seconds since the fault."""
    bench.settle()
    seconds = time.monotonic() - bench.moment
    bench.check()
    print(f"{what}: recovered in {seconds:.1f} s", flush=True)
    return seconds
