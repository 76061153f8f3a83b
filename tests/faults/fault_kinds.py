"""The kinds of faults. Each strikes at a random point while a bench writes and runs epochs, and returns a description.

A kind returns after every killed process was restarted. Then the bench must settle and its check must pass.
"""

from __future__ import annotations

import random
import resource
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass

import psutil
from fault_bench import CHUNK, POISON, POISONED, Bench
from fault_oracle import differences
from fault_processes import until
from fault_runner import LOST

import tailrace as tr
from tailrace.database.inside import inside
from tailrace.database.progress import Step
from tailrace.store.lmdb.file_locks import held

BUILD = ("build.chunk", "build.publish", "build.published", "catalog.change", "catalog.changed")
WRITE = ("write.commit", "write.committed")


class Left(BaseException):
    """Raised to interrupt the process that builds a view."""


def driver_at_a_point(bench: Bench, rng: random.Random) -> str:
    point = rng.choice(bench.driver_points)
    bench.arm(point, "kill")
    bench.write(rng)
    assert bench.wait_until_met(point) == bench.runner.process.pid
    _died(bench)
    return f"driver killed at {point}"


def driver_at_any_time(bench: Bench, rng: random.Random) -> str:
    wait = rng.uniform(0.0, 1.5)
    bench.write(rng)
    time.sleep(wait)
    bench.runner.kill()
    bench.restart_runner()
    return f"driver killed after {wait:.2f} s"


def jvm(bench: Bench, rng: random.Random) -> str:
    point = rng.choice(bench.task_points)
    bench.arm(point, "sleep:1")
    bench.write(rng)
    bench.wait_until_met(point)
    bench.runner.javas()[0].kill()
    assert bench.runner.ended() == LOST
    assert "Spark has stopped" in bench.runner.last("failed")[1]
    bench.restart_runner()
    return f"Spark's JVM killed at {point}"


def worker(bench: Bench, rng: random.Random) -> str:
    point, passing = rng.choice(bench.task_points), rng.randrange(1, 4)
    bench.arm(point, "kill", passing)
    _write_until_met(bench, rng, point)
    return f"Python worker killed at {point}, passing {passing}"


def task(bench: Bench, rng: random.Random) -> str:
    point, passing = rng.choice(bench.task_points), rng.randrange(1, 4)
    bench.arm(point, "raise", passing)
    _write_until_met(bench, rng, point)
    return f"task failed at {point}, passing {passing}"


def worker_that_stays_behind(bench: Bench, rng: random.Random) -> str:
    """A worker outlives its daemon, JVM and driver, and applies its part long after others have done so."""
    point = rng.choice(["task.apply", "shard.commit"])
    seconds = rng.uniform(8, 14)
    bench.arm(point, f"sleep:{seconds}")
    bench.write(rng)
    left = psutil.Process(bench.wait_until_met(point))
    daemon, java = left.parent(), bench.runner.javas()[0]
    assert daemon is not None
    for process in (daemon, java, bench.runner.process):
        process.kill()
    bench.runner.ended()
    bench.restart_runner()
    if point == "task.apply":  # at shard.commit it holds a shard's lock, so others must wait for it
        bench.write(rng)
        bench.settle()
    until(lambda: not left.is_running() or left.status() == psutil.STATUS_ZOMBIE, "the worker that was left to end")
    bench.write(rng)
    return f"worker left behind at {point} for {seconds:.0f} s"


def writer_at_a_point(bench: Bench, rng: random.Random) -> str:
    point, passing = rng.choice(WRITE), rng.randrange(1, 5)
    bench.arm(point, "kill", passing)
    bench.write(rng, 5)
    pid = bench.wait_until_met(point)
    number = next(n for n, w in enumerate(bench.writers) if w.process.pid == pid)
    assert bench.writers[number].ended() == -signal.SIGKILL
    bench.restart_writer(number)
    return f"writer killed at {point}"


def writer_at_any_time(bench: Bench, rng: random.Random) -> str:
    bench.write(rng, 20, 40)
    time.sleep(rng.uniform(0.0, 0.2))
    number = rng.randrange(len(bench.writers))
    bench.writers[number].kill()
    bench.restart_writer(number)
    return "writer killed"


def build(bench: Bench, rng: random.Random) -> str:
    """The driver is killed while it continues a view build that another process began and abandoned."""
    point = rng.choice(BUILD)

    def leave(step: Step) -> None:
        if step.rows is not None:
            raise Left

    bench.write(rng)
    bench.settle()
    bench.db.sql("DROP VIEW IF EXISTS built")
    bench.arm(point, "kill")
    try:
        bench.db.sql(
            "CREATE MATERIALIZED VIEW built AS SELECT a.id, a.g, b.v FROM a JOIN b ON a.id = b.id", progress=leave
        )
    except Left:
        bench.write(rng)
        assert bench.wait_until_met(point) == bench.runner.process.pid
        _died(bench)
    else:
        bench.disarm()  # too few rows for two chunks
    return f"driver killed at {point}"


def table(bench: Bench, rng: random.Random) -> str:
    """A process is killed while it drops a table. The table keeps all of its rows or loses all of them."""
    point = rng.choice(["catalog.change", "catalog.changed"])
    bench.db.sql("CREATE TABLE IF NOT EXISTS t (id INT PRIMARY KEY)")
    bench.operations += bench.db.table("t").put_many([{"id": bench.seed * 1000 + i} for i in range(20)]).operations
    number, rows = inside(bench.db).catalog.table("t").id, bench.db.table("t").scan().num_rows
    bench.settle()
    bench.arm(point, "kill")
    bench.write(rng)
    script = "import sys, tailrace; tailrace.open(sys.argv[1]).sql('DROP TABLE t')"
    env = {**bench.child_environment(), "TAILRACE_FAULTS": str(bench.faults)}
    assert subprocess.run([sys.executable, "-c", script, str(bench.store)], env=env).returncode == -signal.SIGKILL
    if point == "catalog.change":
        assert bench.db.table("t").scan().num_rows == rows
    else:
        assert "t" not in bench.db.tables()
        bench.settle()
        until(lambda: _count_of(bench, number) == 0, "rows of a dropped table to go")
    return f"DROP TABLE killed at {point}"


def schema(bench: Bench, rng: random.Random) -> str:
    """Columns come, go and change their names, and so do a table and a view, while writers write and epochs run.

    Writes that name a column or table that has another name just then fail. One ALTER is killed; all or nothing of it
    happened.
    """
    name, point = rng.choice("ab"), rng.choice(["catalog.change", "catalog.changed"])
    bench.settle()  # a build refuses to have its tables renamed
    bench.write(rng, 10, 30)
    bench.arm(point, "kill")
    add = f"ALTER TABLE {name} ADD COLUMN extra STRING DEFAULT 'x{rng.randrange(100)}'"
    script = "import sys, tailrace; tailrace.open(sys.argv[1]).sql(sys.argv[2])"
    env = {**bench.child_environment(), "TAILRACE_FAULTS": str(bench.faults)}
    assert subprocess.run([sys.executable, "-c", script, str(bench.store), add], env=env).returncode == -signal.SIGKILL
    columns = [c.name for c in bench.db.table(name).columns]
    assert columns == ["id", "g", "v"] + ["extra"] * (point == "catalog.changed")
    renamings = [
        (f"ALTER TABLE {name} RENAME COLUMN v TO w", f"ALTER TABLE {name} RENAME COLUMN w TO v"),
        (f"ALTER TABLE {name} RENAME TO moved", f"ALTER TABLE moved RENAME TO {name}"),
        ("ALTER VIEW best RENAME TO better", "ALTER VIEW better RENAME TO best"),
    ]
    there, back = rng.choice(renamings)
    for statement in (
        add.replace("COLUMN", "COLUMN IF NOT EXISTS"),
        there,
        back,
        f"ALTER TABLE {name} DROP COLUMN extra",
    ):
        bench.db.sql(statement)
        bench.write(rng)
    return f"{there.removeprefix('ALTER ')}, and ADD COLUMN killed at {point}"


def full_disk(bench: Bench, rng: random.Random) -> str:
    """The disk is full (files cannot grow) for the driver, its workers or a writer."""
    who = rng.choice(["driver", "workers", "writer"])
    if who == "writer":
        writer = rng.choice(bench.writers)
        before = writer.count("failed")
        with limited([psutil.Process(writer.process.pid)]):
            bench.write(rng)
            writer.wait_for("failed", before + 1)
            bench.written()
        assert "the disk is full" in writer.last("failed")[1]
    else:
        driver = psutil.Process(bench.runner.process.pid)
        bench.settle()
        before = bench.runner.count("failed")
        with limited([driver] if who == "driver" else bench.runner.workers()):
            bench.write(rng)
            bench.runner.wait_for("failed", before + 1)
        assert "the disk is full" in bench.runner.last("failed")[1]
    return f"disk full for the {who}"


@contextmanager
def limited(processes: list[psutil.Process]) -> Iterator[None]:
    """Limits processes, and the processes they fork, to writing the first 8 KiB of each file."""
    for process in processes:
        resource.prlimit(process.pid, resource.RLIMIT_FSIZE, (8192, resource.RLIM_INFINITY))
    try:
        yield
    finally:
        for process in processes:
            if process.is_running():
                resource.prlimit(process.pid, resource.RLIMIT_FSIZE, (resource.RLIM_INFINITY,) * 2)


def damaged_entry(bench: Bench, rng: random.Random) -> str:
    """A log entry gets a flipped bit or is truncated. The error names it, and no epoch commits until it is restored."""
    bench.settle()
    with held(str(bench.store), "epoch", patience=60):
        bench.write(rng)
        bench.written()
        key, whole = rng.choice(_log(bench))
        cut = rng.random() < 0.3
        at = rng.randrange(len(whole))
        damaged = whole[:at] if cut else whole[:at] + bytes([whole[at] ^ (1 << rng.randrange(8))]) + whole[at + 1 :]
        _put_log(bench, key, damaged)
        failed, epoch = bench.runner.count("failed"), bench.db.status().epoch
    message = bench.runner.wait_for("failed", failed + 1)[1]
    node, offset = int.from_bytes(key[:2]), int.from_bytes(key[2:])
    assert f"log entry {offset} of node {node} is damaged" in message, message
    assert bench.db.status().epoch == epoch
    _put_log(bench, key, whole)
    return f"log entry {'truncated to' if cut else 'damaged at'} {at} of {len(whole)} bytes"


def backup(bench: Bench, rng: random.Random) -> str:
    """A backup is killed, and the next one is made under load. A store restored from it is right and goes on."""
    point, passing = rng.choice([("backup.copied", rng.randrange(1, 6)), ("backup.packed", 1)])
    target, place = bench.path / "backup", bench.path / "restored"
    command = [sys.executable, "-m", "tailrace", "backup", str(bench.store), str(target)]
    env = {**bench.child_environment(), "TAILRACE_FAULTS": str(bench.faults)}
    bench.arm(point, "kill", passing)
    bench.write(rng, 20, 40)
    assert subprocess.run(command, env=env).returncode == -signal.SIGKILL
    assert not target.exists()
    acknowledged = max((writer.last("ok")[1] for writer in bench.writers if writer.count("ok")), default=0)
    assert subprocess.run(command, env=env, capture_output=True).returncode == 0
    assert not list(bench.path.glob(".*.draft"))
    bench.moment = time.monotonic()
    tr.restore(target, place, verify=False, spark=bench.db.spark)
    with tr.open(place, spark=bench.db.spark) as restored:
        inside(restored).builder.chunk = CHUNK
        _is_right(restored)
        assert inside(restored).store.newest_cut().transaction >= acknowledged
        restored.table("a").put_many([{"id": 5000, "g": 1, "v": 9}, {"id": 5001, "g": 1, "v": -9}])
        _is_right(restored)
        assert restored.audit(["totals"]).ok
    for directory in (target, place):
        shutil.rmtree(directory)
    return f"backup killed at {point}, passing {passing}; the next one restored"


def _is_right(db: tr.Database) -> None:
    """Every transaction is complete in the tables, and every view is right after an epoch."""
    db.refresh()
    a, b = (db.table(name).scan().to_pylist() for name in "ab")
    assert sum(row["v"] for row in (*a, *b)) == 0
    for name in db.views():
        missing, extra = differences(name, db.view(name).scan().to_pylist(), a, b)
        assert not missing, (name, missing, extra)
        assert not extra, (name, missing, extra)


def second_runner(bench: Bench, rng: random.Random) -> str:
    """A second runner is refused at once; the error names the process of the first."""
    bench.write(rng)
    command = [sys.executable, "-m", "tailrace", "run", str(bench.store)]
    result = subprocess.run(command, env=bench.child_environment(), capture_output=True, text=True, timeout=120)
    assert result.returncode != 0
    assert f"process {bench.runner.process.pid} (" in result.stderr.replace("\n", " "), result
    return "second runner refused"


def _pair(group: int, value: int) -> list[dict[str, int]]:
    """Two rows that add up to zero, as all rows of a transaction must; a view fails on the first if it is POISON."""
    return [{"id": POISONED, "g": group, "v": value}, {"id": POISONED + 1, "g": group, "v": -value}]


def poison(bench: Bench, rng: random.Random) -> str:
    """A row makes a view fail. The view and the one over it stay behind; others go on; both recover with the row."""
    points = [None, "view.failed", "view.undone", "trial.begun", "epoch.commit"]
    point, mended = rng.choice(points), rng.random() < 0.5
    bench.settle()
    if point is not None:
        bench.arm(point, "kill")
    bench.operations += bench.db.table("a").put_many(_pair(1, POISON)).operations
    bench.write(rng)
    if point is not None:
        assert bench.wait_until_met(point) == bench.runner.process.pid
        _died(bench)
    bench.settle(frozenset(("fragile", "over_fragile")))
    bench.check()
    fragile = bench.db.view("fragile")
    until(lambda: fragile.failure and f"id = {POISONED}" in fragile.failure.key, "the row", lambda: fragile.failure)
    bench.write(rng)
    if mended:
        bench.operations += bench.db.table("a").put_many(_pair(2, 5)).operations
        bench.settle()
        bench.check()
    bench.operations += bench.db.table("a").delete_many([POISONED, POISONED + 1]).operations
    return f"a row that a view fails on, {'mended' if mended else 'deleted'}, driver killed at {point or 'no point'}"


def _died(bench: Bench) -> None:
    assert bench.runner.ended() == -signal.SIGKILL
    bench.restart_runner()


def _write_until_met(bench: Bench, rng: random.Random, point: str) -> None:
    """Writes until a task runs into the fault. Tasks pass a point once per epoch or per shard with rows."""

    def met() -> bool:
        bench.moment = time.monotonic()
        bench.write(rng)
        bench.settle()
        return bench.met(point) is not None

    until(met, f"a task to pass {point}")


def _log(bench: Bench) -> list[tuple[bytes, bytes]]:
    store = inside(bench.db).store
    start = bench.db.status().cut
    with store.environment.read() as txn, txn.cursor(store.environment.databases["log"]) as cursor:
        entries = [(bytes(k), bytes(v)) for k, v in cursor]
    return [(k, v) for k, v in entries if int.from_bytes(k[2:]) >= start[int.from_bytes(k[:2])]]


def _put_log(bench: Bench, key: bytes, value: bytes) -> None:
    store = inside(bench.db).store
    with store.environment.write() as txn:
        txn.put(key, value, db=store.environment.databases["log"])


def _count_of(bench: Bench, table: int) -> int:
    store = inside(bench.db).store
    with store.environment.read() as txn, txn.cursor(store.environment.databases["rows"]) as cursor:
        return sum(k.startswith(table.to_bytes(4)) for k in cursor.iternext(values=False))


@dataclass(frozen=True)
class Kind:
    """A kind of fault, and its weight in random draws."""

    happen: Callable[[Bench, random.Random], str]
    weight: int


KINDS = [
    Kind(driver_at_a_point, 3),
    Kind(driver_at_any_time, 2),
    Kind(worker, 3),
    Kind(task, 2),
    Kind(worker_that_stays_behind, 1),
    Kind(jvm, 1),
    Kind(writer_at_a_point, 3),
    Kind(writer_at_any_time, 2),
    Kind(build, 2),
    Kind(table, 1),
    Kind(schema, 2),
    Kind(full_disk, 3),
    Kind(damaged_entry, 3),
    Kind(second_runner, 1),
    Kind(poison, 3),
    Kind(backup, 3),
]
