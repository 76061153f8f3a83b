"""Files and directories of a store are private to their owner, whatever the umask."""

from __future__ import annotations

import os
import stat
from collections.abc import Iterator
from pathlib import Path

import pytest

import tailrace as tr
from tailrace.database.inside import inside
from tailrace.errors import EpochsLocked, StoreError
from tailrace.spark import java
from tailrace.store.base import Write
from tailrace.store.lmdb import settings
from tailrace.store.lmdb.file_locks import held
from tailrace.store.requested import Requested


@pytest.fixture(params=[0o000, 0o022, 0o077, 0o277], ids=oct)
def umask(request: pytest.FixtureRequest) -> Iterator[int]:
    before = os.umask(request.param)
    try:
        yield request.param
    finally:
        os.umask(before)


def modes(root: Path) -> dict[str, int]:
    by_path = {str(root): stat.S_IMODE(root.stat().st_mode)}
    for place, directories, files in os.walk(root):
        for name in (*directories, *files):
            path = Path(place) / name
            by_path[str(path)] = stat.S_IMODE(path.stat().st_mode)
    return by_path


def use(path: Path) -> None:
    """Create every kind of file that a store creates."""
    with tr.open(path, create=True, nodes=1, shards=2) as db:
        db.sql("CREATE TABLE IF NOT EXISTS t (id BIGINT PRIMARY KEY)")
        db.table("t").put({"id": 1})
        for shard in range(2):
            inside(db).store.shard(shard).apply(1, [Write.of(1, [b"k"], [b"v"], [None])], 0)
        with held(db.path, "runner"), pytest.raises(EpochsLocked), held(db.path, "runner"):
            pass
    settings.require(path, Requested(map_size=1 << 39))


def test_directories_are_0700_and_files_0600(tmp_path: Path, umask: int) -> None:
    use(tmp_path / "store")
    use(tmp_path / "store")
    created = modes(tmp_path / "store")
    assert len(created) == 14
    wrong = {p: oct(m) for p, m in created.items() if m != (0o700 if Path(p).is_dir() else 0o600)}
    assert wrong == {}


def test_an_empty_directory_becomes_private_when_a_store_is_created_in_it(tmp_path: Path) -> None:
    (tmp_path / "store").mkdir(mode=0o755)
    use(tmp_path / "store")
    assert stat.S_IMODE((tmp_path / "store").stat().st_mode) == 0o700


def test_permissions_that_an_operator_changed_are_kept(tmp_path: Path) -> None:
    use(tmp_path / "store")
    for path in map(Path, modes(tmp_path / "store")):
        path.chmod(0o770 if path.is_dir() else 0o660)
    use(tmp_path / "store")
    assert {m for p, m in modes(tmp_path / "store").items() if Path(p).name != "store.json"} == {0o770, 0o660}


def test_a_lock_file_that_is_a_symbolic_link_is_not_followed(tmp_path: Path) -> None:
    use(tmp_path / "store")
    (tmp_path / "elsewhere").write_text("kept")
    (tmp_path / "store" / "epoch.lock").unlink()
    (tmp_path / "store" / "epoch.lock").symlink_to(tmp_path / "elsewhere")
    with pytest.raises(StoreError, match="symbolic links"), held(str(tmp_path / "store"), "epoch"):
        pass
    assert (tmp_path / "elsewhere").read_text() == "kept"


def test_the_java_wrapper_is_private_and_its_name_is_unpredictable(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path))
    before = os.umask(0)
    try:
        java._wrap_java.cache_clear()
        wrapper = java._wrap_java(Path("/opt/a java's home"))
    finally:
        os.umask(before)
        java._wrap_java.cache_clear()
    assert wrapper.parent == tmp_path
    assert str(os.getuid()) not in wrapper.name.split("-")
    assert stat.S_IMODE(wrapper.stat().st_mode) == 0o700
    assert stat.S_IMODE((wrapper / "bin" / "java").stat().st_mode) == 0o700
