"""An audit finds nothing in a healthy store and every damage made on purpose; a repair fixes it."""

from __future__ import annotations

import shutil
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import damage
import pytest
from damage import assert_maintained, count_by_kind, entry, flip, state_of, write

import tailrace as tr
from tailrace.catalog import construction
from tailrace.database.inside import inside
from tailrace.epochs.expected import ExpectedStates
from tailrace.errors import BadKey

EVERY_KIND = {
    **damage.VIEWS,
    "lonely": "SELECT a.id, b.w FROM a LEFT JOIN b ON a.id = b.id",
    "spread": "SELECT g, stddev(v) AS sd, COUNT(DISTINCT v) AS vs, SUM(x) AS s FROM a GROUP BY g",
    "everything": "SELECT COUNT(*) AS n, SUM(v) AS s FROM a",
    "ranks": "SELECT id, rank() OVER (PARTITION BY g ORDER BY v) AS r, avg(x) OVER (PARTITION BY g) AS m FROM a",
    "over_skewed": "SELECT SUM(k) AS s, MAX(k) AS m, COUNT(*) AS n FROM skewed",
    "none": "SELECT id FROM a WHERE id NOT IN (SELECT id FROM b)",
    "cubes": "SELECT g, id % 2 AS odd, SUM(v) AS s FROM a GROUP BY ROLLUP (g, id % 2)",
}


@pytest.fixture
def db(tmp_path: Path, spark: Any) -> Iterator[tr.Database]:
    with damage.store(tmp_path / "store", spark) as db:
        yield db


def test_a_healthy_store_has_no_findings_while_writers_and_epochs_continue(tmp_path: Path, spark: Any) -> None:
    with damage.store(tmp_path / "store", spark, EVERY_KIND) as db:
        db.sql("CREATE MATERIALIZED VIEW full_ranks WITH (refresh = 'full') AS " + EVERY_KIND["ranks"])
        db.sql("CREATE MATERIALIZED VIEW auto_pairs WITH (refresh = 'auto') AS " + EVERY_KIND["pairs"])
        ended = threading.Event()
        epochs: list[int] = []

        def work() -> None:
            while not ended.is_set():
                write(db, len(epochs) + 10, times=1)
                epochs.append(db.refresh().number)

        worker = threading.Thread(target=work)
        worker.start()
        try:
            report = db.audit()
        finally:
            ended.set()
            worker.join()
        assert report.ok, report
        assert epochs[-1] > report.epoch, "no epoch was committed during the audit"
        assert report.rows > 100
        assert report.entries > 100
        assert list(report.views) == db.views()
        assert not any((Path(db.path) / "scratch").iterdir())


def test_large_tables_are_loaded_in_chunks(db: tr.Database, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(construction, "AT_ONCE", 0)
    monkeypatch.setattr(construction, "CHUNK", 15)
    chunks: list[int] = []
    step = ExpectedStates._build_in_chunks

    def counted(self: ExpectedStates, *args: Any) -> int:
        chunks.append(step(self, *args))
        return chunks[-1]

    monkeypatch.setattr(ExpectedStates, "_build_in_chunks", counted)
    assert db.audit().ok
    assert chunks[0] > 4
    entry(db, state_of(db, "bag"), lambda v: flip(v, 0))
    assert {f.views for f in db.audit().findings} == {("bag",)}


def test_damaged_rows_of_views(db: tr.Database) -> None:
    totals, pairs, bag = (state_of(db, v) for v in ("totals", "pairs", "bag"))
    entry(db, totals, lambda v: flip(v, 5))
    shard = entry(db, totals, lambda v: None, number=1)
    entry(db, pairs, lambda v: v[:3], number=3)
    damage.put_entry(db, shard, totals, b"\x01\x80\x00\x00\x63", bytes(1 + 4 + 8 + 8 + 4))
    entry(db, bag, lambda v: flip(v, 0))
    report = db.audit()
    assert not report.ok
    findings = count_by_kind(report.findings)
    assert findings.pop(("rows of bag", "missing")) > 0
    assert findings == {
        ("rows of totals", "missing"): 1,
        ("rows of totals", "extra"): 1,
        ("rows of totals", "different"): 1,
        ("rows of pairs", "missing"): 1,
        ("rows of pairs", "damaged"): 1,
        ("rows of bag", "damaged"): 1,
    }
    different = next(f for f in report.findings if f.kind == "different")
    assert different.examples[0]["right"]["g"] == different.examples[0]["stored"]["g"]
    assert all("--repair" in f.advice for f in report.findings)
    repaired = db.audit(repair=True)
    assert repaired.ok, repaired
    assert count_by_kind(repaired.repaired) == count_by_kind(report.findings)
    assert repaired.epoch == report.epoch + 1
    assert repaired.cut == report.cut
    assert_maintained(db, 20)


def test_a_sample_and_a_range_of_keys(db: tr.Database) -> None:
    rows = db.view("totals").scan().to_pylist()
    entry(db, state_of(db, "totals"), lambda v: flip(v, 5))
    wrong = [r["g"] for r, now in zip(rows, db.view("totals").scan().to_pylist(), strict=True) if r != now]
    assert len(wrong) == 1
    key = wrong[0]
    assert count_by_kind(db.audit(["totals"], start=key, stop=key + 1).findings) == {("rows of totals", "different"): 1}
    assert db.audit(["totals"], start=key + 1).ok
    assert db.audit(["totals"], stop=key).ok
    assert db.audit(["totals"], start=key).rows == len([r for r in rows if r["g"] >= key])
    assert db.audit(["totals"], sample=0.0).rows == 0
    assert not db.audit(["totals"], sample=1.0).ok
    halves = [db.audit(["pairs"], sample=share).rows for share in (0.5, 0.5, 1.0)]
    assert halves[0] == halves[1] < halves[2]
    with pytest.raises(BadKey):
        db.audit(["bag"], start=1)


def test_damaged_states_are_found_before_an_epoch_goes_wrong(db: tr.Database) -> None:
    """The views are still right, but the next epoch would compute wrong rows from these states."""
    numbers = sorted(inside(db).catalog.states.values())
    for at, number in enumerate(numbers):
        entry(db, number, (lambda v: flip(v, 8), lambda v: None, lambda v: v[:-2])[at % 3])
    assert all(db.verify(name).ok for name in db.views())
    report = db.audit()
    damaged = {f.where for f in report.findings}
    assert len(damaged) >= len(numbers)
    for name in ("accumulators by g of totals", "values by g, v of totals", "answers by g of skewed"):
        assert name in damaged, damaged
    repaired = db.audit(repair=True)
    assert repaired.ok, repaired
    assert_maintained(db, 30)


def test_a_repair_is_right_if_epochs_were_committed_since_the_audit(db: tr.Database) -> None:
    accumulators = next(f for f in inside(db).catalog.view("totals").fingerprints)
    entry(db, inside(db).catalog.states[accumulators], lambda v: flip(v, 9))

    def meanwhile(step: object) -> None:
        if str(step) == "repairing":
            write(db, 40)
            db.refresh()

    report = db.audit(["totals"], repair=True, progress=meanwhile)
    assert report.ok
    assert report.repaired
    assert_maintained(db, 41)


def test_a_lost_shard_is_recomputed(tmp_path: Path, spark: Any) -> None:
    with damage.store(tmp_path / "store", spark):
        pass
    place = shutil.copytree(tmp_path / "store", tmp_path / "copy")  # Spark's workers have the original open
    shutil.rmtree(place / "shards" / "001")
    with tr.open(place, spark=spark) as db:
        report = db.audit(repair=True)
        assert report.ok
        assert report.repaired
        assert_maintained(db, 50)
