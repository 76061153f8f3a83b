"""Damage in the structure of a store: marks, undo records, documents, logs, orphaned states, row counts."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import damage
import pytest
from damage import assert_maintained, base, count_by_kind, entry, flip, state_of, write

import tailrace as tr
from tailrace.database.auditor import Auditor
from tailrace.database.inside import inside
from tailrace.epochs.model import INTENT
from tailrace.errors import EpochFailed
from tailrace.store.inspection import Mark
from tailrace.store.lmdb.shard import decode_mark, encode_mark
from tailrace.store.pins import pinned

TWO_VIEWS = {"totals": damage.VIEWS["totals"], "bag": damage.VIEWS["bag"]}


@pytest.fixture
def db(tmp_path: Path, spark: Any) -> Iterator[tr.Database]:
    with damage.store(tmp_path / "store", spark, TWO_VIEWS) as db:
        yield db


def structure(db: tr.Database) -> dict[tuple[str, str], int]:
    """The findings of a structure audit, which needs no Spark: counts by (where, kind)."""
    return count_by_kind(Auditor(inside(db).store, inside(db).catalog, lambda: db.spark).structure(tables=True))


def marked(**changed: int) -> damage.Change:
    def change(value: bytes) -> bytes:
        mark = decode_mark(value)
        assert mark is not None
        return encode_mark(Mark(**{**mark._asdict(), **changed}))

    return change


MARKS: dict[str, damage.Change] = {
    "back": marked(applied=0),
    "forward": marked(applied=2**62),
    "next": marked(applied=3),
    "oldest": marked(oldest=2**40),
    "truncated": lambda v: v[:7],
    "none": lambda v: None,
}


def test_damaged_marks_are_named(db: tr.Database) -> None:
    state = state_of(db, "totals")
    for change in MARKS.values():
        right = damage.marks(db, state)
        shard = entry(db, state, change, "marks")
        assert structure(db) == {(f"mark in shard {shard}: rows of totals", "damaged"): 1}
        damage.put(db, shard, "marks", state.to_bytes(4), right[shard])
        assert structure(db) == {}


@pytest.mark.parametrize("kind", ["back", "forward", "next", "truncated", "none"])
def test_damaged_marks_are_repaired(db: tr.Database, kind: str) -> None:
    entry(db, state_of(db, "totals"), MARKS[kind], "marks")
    report = db.audit(repair=True)
    assert report.ok, report
    assert "mark" in {f.where[:4] for f in report.repaired}  # and rows, where the mark makes them unreadable
    assert_maintained(db, 10)


UNDOS: dict[str, tuple[int, damage.Change]] = {
    "cut": (1, lambda v: v[: len(v) // 2]),
    "garbage": (1, lambda v: bytes(len(v))),
    "gone": (1, lambda v: None),
    "uncounted": (0, lambda v: v[:1]),
    "miscounted": (0, lambda v: bytes([9, 0, 0, 0])),
}


def test_damaged_undo_records(db: tr.Database) -> None:
    state = state_of(db, "totals")
    with pinned(inside(db).store):
        write(db, 3)
        db.refresh()
        for number, change in UNDOS.values():
            right = damage.undos(db, state)
            shard = entry(db, state, change, "undo", number)
            assert structure(db) == {(f"undo records in shard {shard}: rows of totals", "damaged"): 1}
            for key, value in right[shard].items():
                damage.put(db, shard, "undo", key, value)
            assert structure(db) == {}
        entry(db, state, UNDOS["cut"][1], "undo", 1)
    report = db.audit(repair=True)
    assert report.ok, report
    assert_maintained(db, 10)


def test_an_open_epoch_with_a_damaged_undo_record(db: tr.Database) -> None:
    """The epoch is applied but not committed, and cannot be retried: the repair rolls it back and recomputes."""
    write(db, 3)
    change = inside(db).store.change_documents

    def fail(changes: dict[str, Any], **options: Any) -> None:
        if changes.get("committed") is not None:
            raise OSError("no")
        change(changes, **options)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(inside(db).store, "change_documents", fail)
        with pytest.raises(OSError, match="no"):
            db.refresh()
    shard = entry(db, state_of(db, "totals"), UNDOS["cut"][1], "undo", 1)
    assert (f"undo records in shard {shard}: rows of totals", "damaged") in structure(db)
    report = db.audit(repair=True)
    assert report.ok, report
    assert_maintained(db, 10)


def test_orphaned_states_documents_and_row_counts(db: tr.Database) -> None:
    shard = inside(db).store.shard(2).environment
    with shard.write() as txn:
        txn.put(inside(db).store.settings.form.prefix(4711) + b"key", b"value", db=shard.databases["data"])
    table = inside(db).catalog.table("a")
    base(db, "documents", f"count:{table.id}".encode(), lambda v: b"3")
    assert structure(db) == {
        ("state 4711", "orphan"): 1,
        ("mark in shard 2: state 4711", "damaged"): 1,
        ("number of rows of a", "different"): 1,
    }
    inside(db).store.change_documents({"pin:broken": {}})
    base(db, "documents", b"pin:broken", lambda v: b"{")
    assert structure(db) == {("document pin:broken", "damaged"): 1}
    report = db.audit(repair=True)
    assert report.ok, report
    assert inside(db).store.count(table) == db.table("a").scan().num_rows
    assert_maintained(db, 10)


def test_a_damaged_catalog_needs_a_backup(db: tr.Database) -> None:
    base(db, "documents", b"view:totals", lambda v: v[:-5])
    report = db.audit(repair=True)
    assert count_by_kind(report.findings) == {("document view:totals", "damaged"): 1}
    assert "backup" in report.findings[0].advice


def test_damaged_rows_of_tables_need_a_backup(db: tr.Database) -> None:
    base(db, "rows", None, lambda v: v + b"more")
    report = db.audit()
    findings = {f.where: f for f in report.findings}
    assert findings["table b"].count == 1
    assert "backup" in findings["table b"].advice


# the log


DAMAGES: dict[str, damage.Change] = {
    "flipped": flip,
    "truncated": lambda v: v[:40],
    "headless": lambda v: v[:3],
    "gone": lambda v: None,
}


@pytest.mark.parametrize("kind", DAMAGES)
def test_a_damaged_log_entry_is_named_and_never_applied_and_a_repair_skips_it(db: tr.Database, kind: str) -> None:
    before = db.view("totals").scan(), db.status().epoch
    write(db, 5)
    offset = damage.log_entry(db, 1, DAMAGES[kind], number=1)
    with pytest.raises(tr.TailraceError, match=r"log.*node 1.*tailrace audit DIR --repair"):
        db.refresh()
    assert (db.view("totals").scan(), db.status().epoch) == before
    report = db.audit()
    assert count_by_kind(report.findings) == {("log of node 1", "damaged"): 1}
    assert report.findings[0].examples[0]["offset"] == offset
    assert "No write is lost" in report.findings[0].advice
    repaired = db.audit(repair=True)
    assert repaired.ok, repaired
    assert count_by_kind(repaired.repaired) == count_by_kind(report.findings)
    assert db.status().lag_operations == 0
    assert db.view("totals").scan() != before[0]
    assert_maintained(db, 10)


@pytest.mark.parametrize("change", [lambda v: v[:20], lambda v: flip(v, 16)], ids=["truncated", "flipped"])
def test_damaged_notes_of_transactions(db: tr.Database, change: damage.Change) -> None:
    write(db, 5)
    base(db, "transactions", None, change)
    assert ("list of transactions", "damaged") in structure(db)
    report = db.audit(repair=True)
    assert report.ok, report
    assert db.status().lag_operations == 0
    assert_maintained(db, 10)


# crashes

REPAIR = "import sys, tailrace; tailrace.open(sys.argv[1]).audit(repair=True)"


@pytest.mark.parametrize("point", [pytest.param("epoch.intent", marks=pytest.mark.soak), "epoch.commit"])
def test_a_refresh_finishes_a_repair_that_was_killed(tmp_path: Path, spark: Any, point: str) -> None:
    path, armed = tmp_path / "store", tmp_path / "faults"
    armed.mkdir()
    (armed / point).write_text("kill@1")
    with damage.store(path, spark, TWO_VIEWS) as db:
        right = db.view("totals").scan()
        entry(db, state_of(db, "totals"), lambda v: flip(v, 5))
        wrong, epoch = db.view("totals").scan(), db.status().epoch
        assert wrong != right
    command = [sys.executable, "-c", REPAIR, str(path)]
    ended = subprocess.run(command, timeout=240, env={**os.environ, "TAILRACE_FAULTS": str(armed)})
    assert ended.returncode == -signal.SIGKILL
    with tr.open(path, spark=spark) as db:
        assert db.view("totals").scan() == wrong, "a partial repair is visible"
        assert db.refresh().number == epoch + 1
        assert db.view("totals").scan() == right
        assert_maintained(db, 10)


def test_a_failed_repair_leaves_no_open_epoch(db: tr.Database) -> None:
    """A damaged table row makes the repair epoch fail. The epoch is rolled back."""
    entry(db, state_of(db, "bag"), lambda v: None)
    base(db, "rows", inside(db).catalog.table("a").id.to_bytes(4), lambda v: v + b"more")
    with pytest.raises(EpochFailed):
        db.audit(["bag"], sample=1.0, repair=True)
    assert inside(db).store.document(INTENT) is None
