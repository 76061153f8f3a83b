"""The bank test: writers only move money, so every consistent read must find the same total.

One view fails on a row meanwhile, and must neither disturb the others nor miss anything when it recovers.

Writers and the runner of epochs are separate processes at full speed. This process reads: single views, snapshots of
all views, and its own writes by their position. The long test also watches lag, memory and disk usage.
"""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import bank
import psutil
import pytest

import tailrace as tr

Told = Callable[[str], None]
PATIENCE = 240.0  # seconds; on a quiet machine the waits take a few


@dataclass
class Sample:
    """Lag, and in MiB: private memory of the runner's JVM and of its Python processes, and the store's disk usage."""

    seconds: float
    lag: int
    delay: float
    jvm: float
    python: float
    disk: float


@dataclass
class Observations:
    """Counts of reads by kind, and the reads with a wrong result."""

    reads: dict[str, int] = field(default_factory=dict)
    wrong: list[Any] = field(default_factory=list)

    def count(self, kind: str) -> None:
        self.reads[kind] = self.reads.get(kind, 0) + 1


@contextmanager
def child(*command: str, output: int | Any = subprocess.PIPE) -> Iterator[subprocess.Popen[str]]:
    with subprocess.Popen([sys.executable, *command], stdin=subprocess.PIPE, stdout=output, text=True) as process:
        try:
            yield process
        finally:
            process.kill()


def disk(path: Path) -> float:
    return sum(os.stat(p).st_blocks * 512 for p in path.rglob("*")) / 2**20


def private(process: psutil.Process) -> float:
    try:
        memory = process.memory_info()
    except psutil.Error:
        return 0.0
    return float(memory.rss - memory.shared) / 2**20


def sample(db: tr.Database, runner: psutil.Process, began: float) -> Sample:
    status, family = db.status(), [runner, *runner.children(recursive=True)]
    jvm = [p for p in family if "java" in p.name()]
    return Sample(
        time.monotonic() - began,
        status.lag_operations,
        status.delay,
        sum(map(private, jvm)),
        sum(map(private, (p for p in family if p not in jvm))),
        disk(Path(db.path)),
    )


class Readers:
    """Reader threads; they run until the block ends."""

    def __init__(self, db: tr.Database, total: int, *, hold: float) -> None:
        self._db, self._total, self._hold = db, total, hold
        self.seen, self._stop = Observations(), threading.Event()
        loops: list[Callable[[], None]] = [self._plain, self._snapshots, self._own, self._long]
        self._threads = [threading.Thread(target=self._loop, args=(loop,)) for loop in loops]

    def __enter__(self) -> Readers:
        for thread in self._threads:
            thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._stop.set()
        for thread in self._threads:
            thread.join()

    def _loop(self, read: Callable[[], None]) -> None:
        while not self._stop.is_set():
            try:
                read()
            except Exception as error:
                self.seen.wrong.append((read.__name__, repr(error)))
                return
            self.seen.count(read.__name__.strip("_"))

    def _check(self, sums: Any) -> None:
        """Records a wrong sum, or a dict with a wrong sum."""
        if sums not in (self._total, dict.fromkeys(sums, self._total) if isinstance(sums, dict) else None):
            self.seen.wrong.append(sums)

    def _plain(self) -> None:
        row = self._db.view("total").get()
        assert row is not None
        self._check(row["total"])
        self._check(bank.sum_column(self._db.view("wealth").scan(), "total"))

    def _snapshots(self) -> None:
        with self._db.snapshot() as snapshot:
            self._check(bank.sums(snapshot))

    def _long(self) -> None:
        """Holds one snapshot for a while: its content must not change."""
        with self._db.snapshot() as snapshot:
            rows = snapshot.view("checking").scan(), snapshot.table("savings").get_many(list(range(20)))
            self._stop.wait(self._hold)
            now = snapshot.view("checking").scan(), snapshot.table("savings").get_many(list(range(20)))
            self._check(bank.sums(snapshot))
            if now != rows:
                self.seen.wrong.append((snapshot, rows, now))

    def _own(self) -> None:
        """Moves money between the test's own accounts, and reads the write back by its position."""
        accounts = self._db.table("accounts")
        moved = self.seen.reads.get("own", 0) + 1
        rows = ((bank.MINE, -moved), (bank.OTHER, moved))
        written = accounts.put_many([{"id": -b, "branch": b, "balance": bank.EACH + more} for b, more in rows])
        for branch, more in rows:
            row = self._db.view("checking").get(branch, at_least=written, timeout=PATIENCE)
            if row is None or row["total"] != bank.EACH + more:
                self.seen.wrong.append((branch, more, row))


def run(
    path: Path, spark: Any, told: Told, seconds: float, *, writers: int, customers: int, max_lag: int
) -> list[Sample]:
    """Run writers, the runner and readers for `seconds`, then check everything. Returns samples taken meanwhile."""
    with tr.open(path, create=True, spark=spark, map_size=1 << 32, max_lag=max_lag) as db, ExitStack() as stack:
        total = bank.open_bank(db, customers)
        db.refresh()
        assert set(bank.sums(db).values()) == {total}
        first = db.status().epoch
        lines = stack.enter_context((path.parent / "epochs.jsonl").open("w"))
        command = ("-m", "tailrace", "run", str(path), "--interval", "0", "--json")
        runner = stack.enter_context(child(*command, output=lines))
        program = str(Path(bank.__file__))
        working = [stack.enter_context(child(program, str(path), str(i), str(writers))) for i in range(writers)]
        until(
            lambda: db.status().epoch > first + 1,
            "two epochs",
            lambda: (runner.poll(), [w.poll() for w in working], db.status()),
        )
        began, samples, poisoned = time.monotonic(), [], 0
        with Readers(db, total, hold=seconds / 8) as readers:
            while (passed := time.monotonic() - began) < seconds and not readers.seen.wrong:
                if passed > seconds / 4 and not poisoned:
                    poisoned = db.table("accounts").put(bank.POISON).operations
                samples.append(sample(db, psutil.Process(runner.pid), began))
                time.sleep(min(2.0, seconds - passed))
        reports = [json.loads(w.communicate(timeout=PATIENCE)[0]) for w in working]
        until(lambda: db.view("strict").failure is not None, "failure of the view that a row makes fail", db.status)
        db.table("accounts").delete(bank.POISON["id"])
        until(lambda: db.status().lag_operations == 0, "the end of the lag", db.status)
        until(lambda: db.view("strict").failure is None, "recovery of the failed view", db.status)
        runner.send_signal(signal.SIGTERM)
        assert runner.wait(timeout=PATIENCE) == 0
        epochs, written = read_epochs(path.parent / "epochs.jsonl"), sum(r["operations"] for r in reports)
        transactions = sum(r["transactions"] for r in reports)
        told(
            f"{transactions:,} transactions, {written:,} operations, {len(epochs)} epochs, reads: {readers.seen.reads}"
        )
        assert readers.seen.wrong == []
        assert set(readers.seen.reads) == {"plain", "snapshots", "own", "long"}
        assert sum(r["holds"] for r in reports) + 2 * bank.EACH == total
        assert set(bank.sums(db).values()) == {total}
        strict = bank.sum_column(db.view("strict").scan(), "balance")
        assert strict + bank.sum_column(db.view("saved").scan(), "total") == total
        assert db.status().epoch > first + 2
        assert max(epoch["operations"] for epoch in epochs) > 2
        with db.snapshot() as snapshot:
            sums_sql = "SELECT SUM(total) AS t FROM wealth UNION ALL SELECT SUM(total) FROM total UNION ALL"
            sums_sql += " SELECT SUM(balance) FROM (SELECT * FROM accounts UNION ALL SELECT * FROM savings)"
            assert snapshot.query(sums_sql).column("t").to_pylist() == [total] * 3
        assert all(db.verify(name).ok for name in bank.VIEWS)
        assert db.status().pins == []
    return samples


def read_epochs(file: Path) -> list[dict[str, Any]]:
    """The epochs that the runner printed as JSON lines; a last, incomplete line is ignored."""
    lines = [line for line in file.read_text().splitlines(keepends=True) if line.endswith("\n")]
    return [event for event in map(json.loads, lines) if event["event"] == "epoch"]


def until(condition: Callable[[], bool], what: str, state: Callable[[], Any]) -> None:
    """Waits for a condition. A failure reports the last `state()`."""
    deadline = time.monotonic() + PATIENCE
    while not condition():
        if time.monotonic() > deadline:
            pytest.fail(f"no {what} in {PATIENCE:.0f} s: {state()}")
        time.sleep(0.05)


def test_the_money_adds_up(tmp_path: Path, spark: Any, told: Told) -> None:
    run(tmp_path / "bank", spark, told, 15, writers=2, customers=400, max_lag=500)


@pytest.mark.soak
def test_the_money_adds_up_for_long(tmp_path: Path, spark: Any, told: Told) -> None:
    seconds, max_lag = float(os.environ.get("BANK_SECONDS", "600")), 1_000  # so low that writers are throttled
    samples = run(tmp_path / "bank", spark, told, seconds, writers=3, customers=3_000, max_lag=max_lag)
    for s in samples[:: max(1, len(samples) // 20)]:
        told(
            f"{s.seconds:5.0f} s: lag {s.lag:7,}, delay {s.delay:.2f} s,"
            f" JVM {s.jvm:5,.0f} MiB, Python {s.python:5,.0f} MiB, disk {s.disk:5,.0f} MiB"
        )
    told(f"writers were throttled in {sum(s.delay > 0 for s in samples)} of {len(samples)} samples")
    early, late = samples[: len(samples) // 3], samples[-len(samples) // 3 :]
    assert max(s.lag for s in samples) <= 3 * max_lag
    assert max(s.jvm for s in samples) < 4096
    assert max(s.python for s in late) <= 1.5 * max(s.python for s in early) + 100
    assert max(s.disk for s in late) <= 1.5 * max(s.disk for s in early) + 50
