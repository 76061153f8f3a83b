"""Backups: one cut whatever happens between the copies of two shards, and a restored store that goes on."""

from __future__ import annotations

import json
import shutil
import time
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import SparkSession

import tailrace as tr
from tailrace.catalog import construction
from tailrace.database.inside import inside
from tailrace.database.progress import Step
from tailrace.errors import BadBackup, Fenced, NewerFormat, NotCapable, OptionDiffers, StoreError
from tailrace.store.base import Write
from tailrace.store.lmdb.settings import FORMAT
from tailrace.store.lmdb.store import LmdbStore
from tailrace.store.locks import TERM
from tailrace.store.pins import PINS

VIEWS = {
    "totals": "SELECT g, SUM(v) AS s, COUNT(*) AS n, MAX(v) AS hi FROM a GROUP BY g",
    "pairs": "SELECT a.id, b.id AS bid, a.v + b.v AS v FROM a JOIN b ON a.g = b.g",
    "ranks": "SELECT id, rank() OVER (PARTITION BY g ORDER BY v) AS r FROM a",
}
LAST_SHARD = "copying shard 4 of 4"


@pytest.fixture
def db(tmp_path: Path, spark: SparkSession) -> Iterator[tr.Database]:
    with tr.open(tmp_path / "shop", create=True, spark=spark, map_size=1 << 28) as opened:
        for name in "ab":
            opened.sql(f"CREATE TABLE {name} (id INT PRIMARY KEY, g INT, v INT)")
        write(opened, 0)
        opened.sql("; ".join(f"CREATE MATERIALIZED VIEW {name} AS {sql}" for name, sql in VIEWS.items()))
        write(opened, 1)
        opened.refresh()
        write(opened, 2)  # not yet in views
        yield opened


def write(db: tr.Database, number: int) -> None:
    """Changes some rows, adds one and deletes one, in both tables."""
    for name in "ab":
        rows = [{"id": i, "g": (i + number) % 5, "v": 10 * i + number} for i in range(number, 60, 3)]
        db.table(name).put_many([*rows, {"id": 100 + number, "g": 1, "v": number}])
        db.table(name).delete(number * 2)


def contents(db: tr.Database) -> dict[str, list[tuple[Any, ...]]]:
    """All rows of tables and views, sorted."""
    relations = [*(db.table(n) for n in db.tables()), *(db.view(n) for n in db.views())]
    return {r.name: sorted(tuple(row.values()) for row in r.scan().to_pylist()) for r in relations}


def at_step(what: str, action: Callable[[], object]) -> Callable[[Step], None]:
    """A progress callback that runs an action at one step, before that part is copied."""
    return lambda step: action() if str(step) == what else None  # type: ignore[func-returns-value]


def restored(backup: Path, spark: SparkSession, failed: frozenset[str] = frozenset()) -> tr.Database:
    """The store made of a backup. It has no damage, its views are right, and only these have failed."""
    report = tr.restore(backup, backup.parent / "again", spark=spark)
    assert report.failed.keys() == failed
    assert replace(report, failed={}).ok, report
    return tr.open(backup.parent / "again", spark=spark)


def goes_on(db: tr.Database) -> None:
    """Takes writes and epochs, and is right in every part."""
    write(db, 7)
    db.refresh()
    assert db.status().building == []
    for name in db.views():
        assert db.verify(name).ok, name
    assert db.audit().ok, db.audit()


def leftovers(path: Path) -> list[str]:
    return sorted(p.name for p in path.iterdir() if p.name not in ("shop", "backup", "again"))


def test_a_backup_has_tables_views_and_the_log_in_between(db: tr.Database, tmp_path: Path, spark: SparkSession) -> None:
    before, status = contents(db), db.status()
    saved = db.backup(tmp_path / "backup")
    assert (saved.epoch, saved.position) == (status.epoch, inside(db).store.newest_cut().transaction)
    assert saved.bytes == sum(f.stat().st_size for f in (tmp_path / "backup").glob("*.mdb"))
    assert {f.stat().st_mode & 0o777 for f in (tmp_path / "backup").iterdir()} == {0o600}
    assert db.status().pins == []
    with restored(tmp_path / "backup", spark) as again:
        assert contents(again) == before
        assert again.status().lag_operations == status.lag_operations > 0
        db.refresh()
        again.refresh()
        assert contents(again) == contents(db) != before
        goes_on(again)
    assert leftovers(tmp_path) == []


@pytest.mark.parametrize("step", ["copying tables", "copying shard 1 of 4", "copying shard 3 of 4", LAST_SHARD])
def test_epochs_between_the_copies(db: tr.Database, tmp_path: Path, spark: SparkSession, step: str) -> None:
    expected: list[dict[str, list[tuple[Any, ...]]]] = [contents(db)]

    def go_on() -> None:
        for number in (3, 4, 5):
            write(db, number)
            db.refresh()
        expected.append(contents(db))

    saved = db.backup(tmp_path / "backup", progress=at_step(step, go_on))
    newest = db.status().epoch
    with restored(tmp_path / "backup", spark) as again:
        assert contents(again) == expected[step == "copying tables"]
        assert again.status().epoch == saved.epoch
        write(again, 6)
        assert again.refresh().number > newest  # no number is used twice
        goes_on(again)


def test_a_view_created_between_the_copies_is_not_in_the_backup(
    db: tr.Database, tmp_path: Path, spark: SparkSession
) -> None:
    def create() -> None:
        write(db, 3)
        db.sql("CREATE MATERIALIZED VIEW more AS SELECT g, MIN(v) AS lo, COUNT(DISTINCT v) AS d FROM b GROUP BY g")

    db.backup(tmp_path / "backup", progress=at_step("copying shard 2 of 4", create))
    with restored(tmp_path / "backup", spark) as again:
        assert again.views() == sorted(VIEWS)
        goes_on(again)


def test_a_view_dropped_or_replaced_between_the_copies_is_in_the_backup(
    db: tr.Database, tmp_path: Path, spark: SparkSession
) -> None:
    before = contents(db)

    def drop() -> None:
        db.sql("DROP VIEW pairs")
        db.sql("CREATE OR REPLACE MATERIALIZED VIEW totals AS SELECT g, COUNT(*) AS n FROM b GROUP BY g")
        write(db, 3)
        db.refresh()

    db.backup(tmp_path / "backup", progress=at_step("copying shard 1 of 4", drop))
    with restored(tmp_path / "backup", spark) as again:
        assert contents(again) == before
        goes_on(again)


@pytest.mark.parametrize("recovers", [False, True])
def test_a_failed_view_catches_up_after_the_restore(
    db: tr.Database, tmp_path: Path, spark: SparkSession, recovers: bool
) -> None:
    db.sql("CREATE MATERIALIZED VIEW checked AS SELECT id, CAST(IF(v < 0, raise_error('below'), v) AS INT) AS v FROM a")
    db.table("a").put({"id": 500, "g": 1, "v": -1})
    assert set(db.refresh().failed) == {"checked"}
    before = contents(db)

    def go_on() -> None:
        db.table("a").put({"id": 500, "g": 1, "v": 1 if recovers else -2})
        for number in (3, 4):
            db.refresh()
            write(db, number)

    db.backup(tmp_path / "backup", progress=at_step("copying shard 2 of 4", go_on))
    assert (db.view("checked").failure is None) == recovers
    with restored(tmp_path / "backup", spark, failed=frozenset({"checked"})) as again:
        assert contents(again) == before
        assert again.view("checked").failure is not None
        again.table("a").put({"id": 500, "g": 1, "v": 2})
        goes_on(again)
        assert again.view("checked").failure is None


class Left(BaseException):
    """Raised to interrupt a build."""


@pytest.mark.parametrize("ending", ["goes on", "is given up", "is published"])
def test_a_build_between_the_copies(db: tr.Database, tmp_path: Path, spark: SparkSession, ending: str) -> None:
    inside(db).builder.chunk = 20

    def leave(step: Step) -> None:
        if step.rows is not None:
            raise Left

    with pytest.raises(Left):
        db.sql("CREATE MATERIALIZED VIEW late AS SELECT a.id, a.v, b.v AS w FROM a JOIN b ON a.g = b.g", progress=leave)

    def build() -> None:
        write(db, 3)
        if ending == "is given up":
            construction.give_up(inside(db).store, "late", "a test says so")
        if ending == "goes on":
            (making,) = inside(db).builder.interrupted()
            inside(db).builder.step(making, lambda step: None)
        else:
            db.refresh()

    db.backup(tmp_path / "backup", progress=at_step("copying shard 2 of 4", build))
    assert bool(db.status().building) == (ending != "is published")
    with restored(tmp_path / "backup", spark) as again:
        inside(again).builder.chunk = 20
        (making,) = again.status().building
        assert (making["name"], making["failed"], making["pid"]) == ("late", None, None)
        goes_on(again)
        assert "late" in again.views()


def test_a_backup_whose_pin_expired_is_given_up(db: tr.Database, tmp_path: Path) -> None:
    store = inside(db).store

    def expire() -> None:
        store.change_documents({PINS.at(key): None for key in store.documents(PINS)})

    with pytest.raises(StoreError, match="pin expired"):
        db.backup(tmp_path / "backup", progress=at_step(LAST_SHARD, expire))
    assert not (tmp_path / "backup").exists()
    assert leftovers(tmp_path) == []


def test_a_store_repaired_between_the_copies_is_not_saved_by_half(db: tr.Database, tmp_path: Path) -> None:
    store, state = inside(db).store, inside(db).catalog.view("totals").state

    def repair() -> None:
        for number in (3, 4):
            write(db, number)
            db.refresh()
        for shard in range(store.shards):
            store.repairs().reset_state(shard, state, db.status().epoch)

    with pytest.raises(StoreError, match="undo records are gone"):
        db.backup(tmp_path / "backup", progress=at_step(LAST_SHARD, repair))
    assert leftovers(tmp_path) == []


def test_tasks_of_an_earlier_store_cannot_write_to_a_restored_one(
    db: tr.Database, tmp_path: Path, spark: SparkSession
) -> None:
    db.backup(tmp_path / "backup")
    write(db, 3)
    db.refresh()
    term = inside(db).store.document(TERM)
    with restored(tmp_path / "backup", spark) as again:
        new = inside(again).store.document(TERM)
        assert new.number >= int(time.time()) - 600 > term.number
        for late in (term.number, term.number + 1000):
            with pytest.raises(Fenced):
                inside(again).store.shard(0).apply(99, [Write.of(1, [b"k"], [b"v"], [None])], 0, late)
        goes_on(again)


def test_a_store_without_epochs(tmp_path: Path, spark: SparkSession) -> None:
    with tr.open(tmp_path / "shop", create=True, nodes=1, map_size=1 << 26) as db:
        assert db.backup(tmp_path / "backup").epoch == 0
    with restored(tmp_path / "backup", spark) as again:
        assert (again.tables(), again.views()) == ([], [])
        again.sql(
            "CREATE TABLE a (id INT PRIMARY KEY, g INT, v INT); CREATE TABLE b (id INT PRIMARY KEY, g INT, v INT)"
        )
        again.sql(f"CREATE MATERIALIZED VIEW totals AS {VIEWS['totals']}")
        goes_on(again)


def test_a_directory_that_is_not_empty_is_left_alone(db: tr.Database, tmp_path: Path) -> None:
    for target in (tmp_path / "file", tmp_path / "shop"):
        (tmp_path / "file").write_text("kept")
        with pytest.raises(StoreError, match="already exists"):
            db.backup(target)
    assert (tmp_path / "file").read_text() == "kept"
    (tmp_path / "backup").mkdir()
    db.backup(tmp_path / "backup")
    with pytest.raises(StoreError, match="already exists"):
        tr.restore(tmp_path / "backup", tmp_path / "shop")
    assert db.verify("totals").ok


def test_the_settings_of_a_backup_are_fixed(db: tr.Database, tmp_path: Path) -> None:
    db.backup(tmp_path / "backup")
    for option in ({"nodes": 4}, {"shards": 8}, {"durable": False}, {"map_size": 1 << 20}):
        with pytest.raises(OptionDiffers):
            tr.restore(tmp_path / "backup", tmp_path / "again", verify=False, **option)  # type: ignore[arg-type]
    assert leftovers(tmp_path) == []
    tr.restore(tmp_path / "backup", tmp_path / "again", verify=False, map_size=1 << 30)
    assert json.loads((tmp_path / "again" / "store.json").read_text())["map_size"] == 1 << 30


def test_a_store_without_the_capability(db: tr.Database, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(LmdbStore, "capabilities", frozenset())
    with pytest.raises(NotCapable, match="backups"):
        db.backup(tmp_path / "backup")


# damaged backups

Damage = Callable[[Path], None]


def flip(path: Path, at: int) -> None:
    content = bytearray(path.read_bytes())
    content[at] ^= 1
    path.write_bytes(content)


def change(path: Path, **fields: Any) -> None:
    path.write_text(json.dumps({**json.loads(path.read_text()), **fields}))


@pytest.fixture(scope="module")
def backup(tmp_path_factory: pytest.TempPathFactory) -> Path:
    place = tmp_path_factory.mktemp("damaged")
    with tr.open(place / "shop", create=True, nodes=1, shards=2, map_size=1 << 26) as made:
        made.sql("CREATE TABLE a (id INT PRIMARY KEY, g INT, v INT)")
        made.table("a").put_many([{"id": i, "g": i, "v": i} for i in range(100)])
        made.backup(place / "backup")
    return place / "backup"


DAMAGES: dict[str, tuple[str, Damage]] = {
    "first byte": ("base.mdb", lambda path: flip(path, 0)),
    "last byte": ("shard-001.mdb", lambda path: flip(path, -1)),
    "truncated": ("shard-000.mdb", lambda path: path.write_bytes(path.read_bytes()[:-1]) and None),
    "missing": ("shard-000.mdb", lambda path: path.unlink()),
    "no manifest": ("manifest.json", lambda path: path.unlink()),
    "no JSON": ("manifest.json", lambda path: path.write_text("{") and None),
    "no cut": ("manifest.json", lambda path: change(path, cut=None)),
    "files outside": (
        "manifest.json",
        lambda path: change(path, files={"../shop/store.json": {"size": 1, "sha256": ""}}),
    ),
    "other files": ("manifest.json", lambda path: change(path, files={})),
    "other settings": ("manifest.json", lambda path: change(path, settings={"format": 2, "nodes": -1})),
    "no settings": ("manifest.json", lambda path: change(path, settings={})),
}


@pytest.mark.parametrize("name", DAMAGES)
def test_a_damaged_backup_creates_nothing_and_the_error_names_the_file(backup: Path, tmp_path: Path, name: str) -> None:
    file, damage = DAMAGES[name]
    shutil.copytree(backup, tmp_path / "backup")
    damage(tmp_path / "backup" / file)
    with pytest.raises(BadBackup) as error:
        tr.restore(tmp_path / "backup", tmp_path / "again")
    assert file in str(error.value)
    assert str(tmp_path / "backup") in str(error.value)
    assert [p.name for p in tmp_path.iterdir()] == ["backup"]


def test_every_byte_of_a_backup_is_protected(backup: Path, tmp_path: Path) -> None:
    shutil.copytree(backup, tmp_path / "backup")
    for path in (tmp_path / "backup").glob("*.mdb"):
        for at in range(0, path.stat().st_size, path.stat().st_size // 7):
            flip(path, at)
            with pytest.raises(BadBackup, match=path.name):
                tr.restore(tmp_path / "backup", tmp_path / "again", verify=False)
            flip(path, at)
    assert tr.restore(tmp_path / "backup", tmp_path / "again", verify=False).ok


@pytest.mark.parametrize("fields", [{"version": 2}, {"settings": {"format": FORMAT + 1, "nodes": 1}}])
def test_a_backup_of_a_newer_version_is_refused(backup: Path, tmp_path: Path, fields: dict[str, Any]) -> None:
    shutil.copytree(backup, tmp_path / "backup")
    change(tmp_path / "backup" / "manifest.json", **fields)
    with pytest.raises(NewerFormat, match="Upgrade Tailrace"):
        tr.restore(tmp_path / "backup", tmp_path / "again")
    assert [p.name for p in tmp_path.iterdir()] == ["backup"]


@pytest.mark.parametrize("what", ["nothing", "store"])
def test_what_is_no_backup(backup: Path, tmp_path: Path, what: str) -> None:
    source = backup.parent / "shop" if what == "store" else tmp_path / "nothing"
    with pytest.raises(BadBackup, match=r"it has no manifest\.json" if what == "store" else "no such directory"):
        tr.restore(source, tmp_path / "again")
    assert list(tmp_path.iterdir()) == []


def test_a_backup_cannot_be_opened_as_a_store(backup: Path) -> None:
    with pytest.raises(StoreError, match=r"it has no store\.json"):
        tr.open(backup)
