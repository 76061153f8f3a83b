"""SIGINT at any moment: exit code 130, one line at most, no traceback, and no process left behind."""

from __future__ import annotations

import json
import signal
import threading
from pathlib import Path

import psutil
import pytest
from commands import Command, command
from shopping import SPEND, Tailrace

import tailrace as tr
from tailrace.cli.interrupts import descendants
from tailrace.database.signals import caught

AT_IMPORT = """
import os, signal, sys

class Interrupt:
    def find_spec(self, name, path=None, target=None):
        if name == moment:
            os.kill(os.getpid(), signal.SIGINT)

moment = sys.argv.pop(1)
sys.meta_path.insert(0, Interrupt())
from tailrace.cli.main import main
main()
"""
FOREVER = "SELECT count(*) FROM orders, range(100000000000000) WHERE hash(orders.id + range.id) = 7"


def put(shop: Tailrace, *ids: int) -> None:
    with tr.open(shop.path) as db:
        db.table("orders").put_many([{"id": i, "cust": i % 9, "price": i} for i in ids])


def require_quiet(run: Command, *, said: str = "interrupted\n") -> None:
    assert run.err == said


def arm(directory: Path, point: str, action: str) -> Path:
    """Lets the first process that reaches a fault point wait. Returns the file that says whether it has."""
    directory.mkdir(exist_ok=True)
    (directory / point).write_text(f"{action}@1")
    return directory / point


@pytest.mark.parametrize("module", ["tailrace.cli.app", "typer", "pyarrow", "lmdb", "tailrace.database.ddl", "pyspark"])
def test_during_an_import(tmp_path: Path, shop: Tailrace, module: str) -> None:
    with command(tmp_path, module, "sql", shop.path, "SELECT 1", code=AT_IMPORT) as run:
        assert run.end() == 130, run.err
    require_quiet(run)
    assert run.out == ""


@pytest.mark.parametrize("times", [1, 2])
def test_while_java_starts(tmp_path: Path, shop: Tailrace, times: int) -> None:
    with command(tmp_path, "sql", shop.path, "SELECT 1") as run:
        run.wait_until(lambda: run.runs("org.apache.spark"), "the start of Java")
        run.signal(*[signal.SIGINT] * times)
        assert run.end() == 130
    require_quiet(run)
    assert list((tmp_path / "tmp").glob("tailrace-*")) == []


def test_during_a_query(tmp_path: Path, shop: Tailrace) -> None:
    put(shop, 1)
    with command(tmp_path, "sql", shop.path, FOREVER) as run:
        run.wait_until(lambda: run.runs("tailrace.spark.daemon"), "the start of a Python worker")
        run.signal(signal.SIGINT)
        assert run.end() == 130
    require_quiet(run)
    assert list((tmp_path / "tmp").glob("tailrace-*")) == []
    assert shop.json("status")["runner"] is None


def test_the_first_signal_ends_run_after_the_epoch_and_the_second_at_once(tmp_path: Path, shop: Tailrace) -> None:
    with command(tmp_path, "sql", shop.path, SPEND) as run:
        assert run.end() == 0, run.err
    put(shop, 1, 2, 3)
    met = arm(tmp_path / "faults", "task.apply", "sleep:2")
    with command(tmp_path, "run", shop.path, "--json", TAILRACE_FAULTS=str(tmp_path / "faults")) as run:
        run.wait_until(lambda: met.read_text().startswith("met"), "the first epoch")
        run.signal(signal.SIGINT)
        assert run.end() == 130
    require_quiet(run, said="")
    events = [json.loads(line)["event"] for line in run.out.splitlines()]
    assert events == ["start", "spark", "epoch", "stop"]
    assert shop.json("status")["lag_operations"] == 0

    put(shop, 4)
    met = arm(tmp_path / "faults", "task.apply", "sleep:600")
    with command(tmp_path, "run", shop.path, "--json", TAILRACE_FAULTS=str(tmp_path / "faults")) as run:
        run.wait_until(lambda: met.read_text().startswith("met"), "the second epoch")
        run.signal(signal.SIGINT)
        run.wait_until(lambda: process_is_waiting(run), "the first signal to be handled")
        run.signal(signal.SIGINT)
        assert run.end() == 130
    require_quiet(run)
    assert shop.json("status")["lag_operations"] == 1


def process_is_waiting(run: Command) -> bool:
    """Whether the command has handled its signals: none is pending."""
    lines = Path(f"/proc/{run.process.pid}/status").read_text().splitlines()
    pending = next(line for line in lines if line.startswith("ShdPnd:"))
    return int(pending.split()[1], 16) == 0 and psutil.Process(run.process.pid).status() == psutil.STATUS_SLEEPING


def test_during_a_build(tmp_path: Path, shop: Tailrace) -> None:
    put(shop, *range(5))
    met = arm(tmp_path / "faults", "task.apply", "sleep:600")
    with command(tmp_path, "sql", shop.path, SPEND, TAILRACE_FAULTS=str(tmp_path / "faults")) as run:
        run.wait_until(lambda: met.read_text().startswith("met"), "the job of the build")
        run.signal(signal.SIGINT, signal.SIGINT)
        assert run.end() == 130
    require_quiet(run)
    assert shop.json("status")["views"] == []


def test_sigterm_while_java_starts(tmp_path: Path, shop: Tailrace) -> None:
    with command(tmp_path, "run", shop.path) as run:
        run.wait_until(lambda: run.runs("org.apache.spark"), "the start of Java")
        run.signal(signal.SIGTERM)
        assert run.end() == 143
    require_quiet(run, said="")
    assert run.out.count("\n") == 1


def test_a_caught_signal_is_caught_once() -> None:
    stop, outer = threading.Event(), threading.Event()
    with caught(outer.set, signal.SIGINT), caught(stop.set, signal.SIGINT) as stopped:
        signal.raise_signal(signal.SIGINT)
        assert (stop.is_set(), outer.is_set(), stopped.by) == (True, False, signal.SIGINT)
        signal.raise_signal(signal.SIGINT)
        assert outer.is_set()


def test_descendants_are_found_through_proc_and_ps(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    from tailrace.cli import interrupts

    code = "import subprocess; subprocess.run(['sleep', '600'])"
    with command(tmp_path, code=code) as run:
        run.wait_until(lambda: run.runs("sleep 600"), "the start of a process")
        (expected,) = [p.pid for p in run.processes()]
        assert descendants(run.process.pid) == [expected]
        monkeypatch.setattr(interrupts, "_processes", interrupts._processes_by_ps)
        assert descendants(run.process.pid) == [expected]


def test_run_ends_with_a_clear_error_if_its_store_is_moved_away(tmp_path: Path, shop: Tailrace) -> None:
    put(shop, 1)
    with command(tmp_path, "run", shop.path) as run:
        run.wait_until(lambda: "epoch 1:" in run.out, "the first epoch")
        shop.path.rename(tmp_path / "elsewhere")
        assert run.end() == 1
    assert f"the store {shop.path} is gone: it was moved or deleted while in use" in run.err
    assert "Traceback" not in run.err
    assert "Errno" not in run.err
    assert not shop.path.exists()
