"""Backups, dumps and restores on a full or read-only disk: Tailrace's errors, and nothing left behind."""

from __future__ import annotations

import json
import os
import resource
import subprocess
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
from pyspark.sql import SparkSession

import tailrace as tr
from tailrace.errors import BadBackup, ReadOnly, StoreError, StoreFull

FORBIDDEN = Path("/sys/tailrace-test")  # nobody can make a directory there
Write = Callable[[tr.Database, Path, Path], object]
WRITES: dict[str, Write] = {
    "backup": lambda db, saved, target: db.backup(target),
    "dump": lambda db, saved, target: db.dump(target),
    "restored backup": lambda db, saved, target: tr.restore(saved / "backup", target, spark=db.spark, verify=False),
    "restored dump": lambda db, saved, target: tr.restore(saved / "dump", target, spark=db.spark, verify=False),
}


@pytest.fixture(scope="module")
def saved(tmp_path_factory: pytest.TempPathFactory, spark: SparkSession) -> Iterator[tuple[tr.Database, Path]]:
    """A store, and the directory of a backup and a dump of it."""
    path = tmp_path_factory.mktemp("saved")
    with tr.open(path / "shop", create=True, spark=spark, map_size=1 << 28, max_lag=12_345) as db:
        db.sql("CREATE TABLE a (id INT PRIMARY KEY, s STRING)")
        db.table("a").put_many([{"id": i, "s": os.urandom(20).hex()} for i in range(5_000)])
        db.backup(path / "backup")
        db.dump(path / "dump")
        yield db, path


@contextmanager
def files_limited_to(size: int) -> Iterator[None]:
    """This process can write only the first `size` bytes of each file."""
    _, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (size, hard))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, (hard, hard))


@contextmanager
def small_disk(path: Path, size: str) -> Iterator[Path]:
    """A file system in memory. Skips the test if this user may not mount one."""
    path.mkdir()
    mounted = subprocess.run(["mount", "-t", "tmpfs", "-o", f"size={size}", "tmpfs", path], capture_output=True)
    if mounted.returncode:
        pytest.skip("only root can mount a small disk")
    try:
        yield path
    finally:
        subprocess.run(["umount", "--lazy", path], check=True)


@pytest.mark.parametrize("what", ["restored backup", "restored dump"])  # the others also write to the store
def test_files_that_cannot_grow(saved: tuple[tr.Database, Path], tmp_path: Path, what: str) -> None:
    db, path = saved
    with files_limited_to(8192), pytest.raises(StoreFull, match=r"the disk is full\. Nothing was created") as caught:
        WRITES[what](db, path, tmp_path / "target")
    assert (caught.value.path, caught.value.full) == (str(tmp_path / "target"), "disk")
    assert list(tmp_path.iterdir()) == []
    WRITES[what](db, path, tmp_path / "target")


@pytest.mark.parametrize("what", WRITES)
def test_a_small_disk(saved: tuple[tr.Database, Path], tmp_path: Path, what: str) -> None:
    db, path = saved
    with small_disk(tmp_path / "disk", "60k") as disk:
        with pytest.raises(StoreFull, match=r"the disk is full\. Nothing was created"):
            WRITES[what](db, path, disk / "new" / "target")
        assert list((disk / "new").iterdir()) == []


def test_writes_to_a_small_disk(tmp_path: Path, spark: SparkSession) -> None:
    """LMDB has no error of its own for a write of which only a part fits."""
    with small_disk(tmp_path / "disk", "2m") as disk, tr.open(disk / "shop", create=True, spark=spark) as db:
        db.sql("CREATE TABLE a (id INT PRIMARY KEY, s STRING)")
        with pytest.raises(StoreFull, match=r"the disk is full\. This write was rolled back"):
            db.table("a").put_many([{"id": i, "s": os.urandom(20).hex()} for i in range(50_000)])
        assert db.table("a").scan().num_rows == 0


@pytest.mark.parametrize("what", WRITES)
def test_a_directory_that_cannot_be_written(saved: tuple[tr.Database, Path], tmp_path: Path, what: str) -> None:
    db, path = saved
    with pytest.raises(ReadOnly, match=r"Nothing was created\. Choose a directory") as caught:
        WRITES[what](db, path, FORBIDDEN / "target")
    assert caught.value.path == str(FORBIDDEN / "target")
    (tmp_path / "file").write_text("")
    with pytest.raises(StoreError, match=r"Nothing was created\. Choose"):
        WRITES[what](db, path, tmp_path / "file" / "target")
    assert not FORBIDDEN.exists()


@pytest.mark.parametrize("kind", ["backup", "dump"])
def test_max_lag_is_restored(saved: tuple[tr.Database, Path], tmp_path: Path, spark: SparkSession, kind: str) -> None:
    tr.restore(saved[1] / kind, tmp_path / "again", spark=spark)
    with tr.open(tmp_path / "again", spark=spark) as again:
        assert again.status().max_lag == 12_345


@pytest.mark.parametrize("wrong", [0, "many"])
def test_a_dump_with_a_wrong_max_lag(
    saved: tuple[tr.Database, Path], tmp_path: Path, spark: SparkSession, wrong: object
) -> None:
    saved[0].dump(tmp_path / "dump")
    manifest = json.loads((tmp_path / "dump" / "manifest.json").read_text())
    manifest["settings"]["max_lag"] = wrong
    (tmp_path / "dump" / "manifest.json").write_text(json.dumps(manifest))
    with pytest.raises(BadBackup, match="its max_lag is no positive number"):
        tr.restore(tmp_path / "dump", tmp_path / "again", spark=spark)
    assert not (tmp_path / "again").exists()
