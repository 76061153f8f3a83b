"""The time of epochs: kept over crashes, part of builds and recordings, and known to readers of older epochs."""

from __future__ import annotations

import random
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest
from crashes import crash_before_commit
from oracle import Model, random_row, random_step, wide_store

import tailrace as tr
from tailrace.database.inside import inside
from tailrace.database.progress import Step
from tailrace.epochs.model import INTENT
from tailrace.errors import BadRecording, Unsupported
from tailrace.store.commits import COMMITTED, Committed, read_committed
from tailrace.store.pins import pinned
from tailrace.verify.history.verdict import Level

START = datetime(2026, 1, 1, tzinfo=UTC)
HOUR = 3_600_000_000
VIEWS = {
    "recent": "SELECT id, t FROM a WHERE t > now() - INTERVAL 1 HOUR",
    "counted": "SELECT g, count(*) AS c FROM a WHERE t BETWEEN now() - INTERVAL 2 HOURS AND now() GROUP BY g",
    "today": "SELECT id, g FROM a WHERE d = current_date()",
    "over": "SELECT r.id FROM recent r JOIN today y ON r.id = y.id",
}


class Clock:
    def __init__(self) -> None:
        self.now = int(START.timestamp() * 1_000_000)

    def __call__(self) -> int:
        return self.now


@pytest.fixture
def db(tmp_path: Path, spark: Any) -> Iterator[tr.Database]:
    with wide_store(tmp_path / "s", spark, "a") as opened:
        inside(opened).epochs.clock = Clock()
        yield opened


def clock(db: tr.Database) -> Clock:
    given = inside(db).epochs.clock
    assert isinstance(given, Clock)
    return given


def create(db: tr.Database, *names: str) -> None:
    for name in names:
        db.sql(f"CREATE MATERIALIZED VIEW {name} AS {VIEWS[name]}")


def fill(model: Model, rng: random.Random, rows: int) -> None:
    model.put("a", [{**random_row(rng), "id": i} for i in range(rows)])


def test_a_retried_epoch_has_the_time_of_its_intent(db: tr.Database) -> None:
    rng, model = random.Random(1), Model(db)
    fill(model, rng, 20)
    create(db, *VIEWS)
    seen: list[int] = []
    for _ in range(3):
        seen.clear()
        clock(db).now += HOUR
        intended = clock(db).now
        if rng.random() < 0.7:
            random_step(rng, model, "a", 25)
        crash_before_commit(db)
        intent = inside(db).store.document(INTENT)
        assert intent is not None
        assert intent.time == intended
        clock(db).now += HOUR // 2
        db.refresh(lambda epoch: seen.append(read_committed(inside(db).store).time))
        assert seen[0] == intended, "the retried epoch"
        assert read_committed(inside(db).store).time in (intended, clock(db).now)
        model.check()
    assert not db.audit().findings


def test_a_build_in_chunks_follows_the_time(db: tr.Database) -> None:
    rng, model = random.Random(2), Model(db)
    inside(db).builder.chunk = 9
    fill(model, rng, 60)
    steps: list[int] = []

    def on_step(step: Step) -> None:
        steps.append(step.rows or 0)
        clock(db).now += rng.choice([0, 1, HOUR // 3, HOUR])
        for _ in range(2):
            random_step(rng, model, "a", 60)
        if rng.random() < 0.5:
            db.refresh()

    for name in ("recent", "counted"):
        db.sql(f"CREATE MATERIALIZED VIEW {name} AS {VIEWS[name]}", progress=on_step)
    assert max(steps) > 20
    db.refresh()
    model.check()
    clock(db).now += HOUR
    db.refresh()
    model.check()
    assert not db.audit().findings


def test_an_older_epoch_keeps_its_time(db: tr.Database) -> None:
    model = Model(db)
    fill(model, random.Random(3), 20)
    create(db, "recent")
    store = inside(db).store
    with db.snapshot() as snapshot, pinned(store) as pin:
        before = snapshot.view("recent").scan()
        clock(db).now += 3 * HOUR
        db.refresh()
        assert db.view("recent").scan().num_rows < before.num_rows
        assert snapshot.view("recent").scan().num_rows == before.num_rows
        assert pin.time < read_committed(store).time
    assert db.status().epochs[0]["time"] == clock(db).now


def test_recordings_know_the_time(db: tr.Database, tmp_path: Path, spark: Any) -> None:
    rng, model = random.Random(4), Model(db)
    fill(model, rng, 12)
    create(db, *VIEWS)
    with db.record(tmp_path / "h.arrow") as recording:
        for number in range(4):
            clock(db).now += rng.choice([1, HOUR // 2, HOUR])
            if number % 2:
                random_step(rng, model, "a", 15)
            db.refresh()
    assert recording.epochs >= 3
    checked = tr.check(tmp_path / "h.arrow", spark=spark)
    assert checked.verdict.level >= Level.STRONG, checked.verdict
    with pytest.raises(BadRecording, match="reads the time"):
        tr.check(tmp_path / "h.arrow", search=True, spark=spark)


def test_auto_views_may_be_recomputed_at_the_time(db: tr.Database) -> None:
    rng, model = random.Random(5), Model(db)
    inside(db).epochs.overhead = -1_000_000  # recomputing is always cheaper
    fill(model, rng, 20)
    for name, sql in list(VIEWS.items())[:3]:
        db.sql(f"CREATE MATERIALIZED VIEW {name} WITH (refresh = 'auto') AS {sql}")
    for _ in range(3):
        clock(db).now += HOUR
        random_step(rng, model, "a", 25)
        assert {way.taken for way in db.refresh().refreshed.values()} == {"recomputed"}
        model.check()
        clock(db).now += HOUR
        db.refresh()  # only time has passed: by deltas
        model.check()


def test_views_that_are_always_recomputed_do_not_read_the_time(db: tr.Database) -> None:
    with pytest.raises(Unsupported, match="refresh = 'full'"):
        db.sql(f"CREATE MATERIALIZED VIEW v WITH (refresh = 'full') AS {VIEWS['recent']}")


def test_a_store_without_times_gets_one(db: tr.Database) -> None:
    store = inside(db).store
    db.table("a").put({"id": 1, "t": START})
    db.refresh()
    old = read_committed(store)
    store.change_documents({COMMITTED.name: Committed(old.epoch, old.cut, old.at)})
    create(db, "recent")
    assert read_committed(store).time == clock(db).now
    assert db.view("recent").scan().num_rows == 1


def test_run_wakes_up_when_rows_are_due(db: tr.Database) -> None:
    create(db, "recent")
    db.table("a").put({"id": 1, "t": START + timedelta(seconds=5)})
    db.refresh()
    waited: list[float] = []

    def pause(seconds: float) -> None:
        waited.append(seconds)
        clock(db).now += int(seconds * 1_000_000)

    db._pause = pause  # type: ignore[method-assign]
    db.run(10_000.0, until=lambda: db.view("recent").scan().num_rows == 0)
    assert waited[0] == 3605.0


@pytest.mark.parametrize("small", [50_000, -1])
def test_a_failed_view_catches_up_from_the_time_of_its_last_good_epoch(db: tr.Database, small: int) -> None:
    inside(db).epochs.jobs.small = small
    recent = "FROM a WHERE t BETWEEN now() - INTERVAL 2 HOURS AND now()"
    poisoned = "CASE WHEN n = 999 THEN raise_error('poison') ELSE n END"
    db.sql(f"CREATE MATERIALIZED VIEW good AS SELECT id, n {recent}")
    db.sql(f"CREATE MATERIALIZED VIEW bad AS SELECT id, {poisoned} AS n {recent}")
    times = [START + timedelta(minutes=m) for m in (-90, -30, 30, 90, 150)]
    db.table("a").put_many([{"id": i, "n": i, "t": t} for i, t in enumerate(times)])
    db.table("a").put({"id": 9, "n": 999, "t": START + timedelta(minutes=45)})
    shown = db.refresh()
    assert not shown.failed, "the bad row is not in the view yet"
    clock(db).now += HOUR
    assert db.refresh().failed.keys() == {"bad"}, "it enters because time passes"
    assert db.refresh().number == shown.number + 1, "what is due for a failed view alone makes no epoch"
    assert db.verify("bad").ok, "as of the time that it shows"
    clock(db).now += HOUR
    db.refresh()
    assert sorted(db.view("good").scan().column("id").to_pylist()) == [2, 3, 9]
    assert sorted(db.view("bad").scan().column("id").to_pylist()) == [0, 1]
    db.table("a").put({"id": 9, "n": 5, "t": START + timedelta(minutes=45)})
    assert db.refresh().recovered == ("bad",)
    assert db.view("bad").scan().sort_by("id").to_pylist() == db.view("good").scan().sort_by("id").to_pylist()
    clock(db).now += HOUR
    db.refresh()
    assert db.view("bad").scan().sort_by("id").to_pylist() == db.view("good").scan().sort_by("id").to_pylist()
    assert not db.audit().findings
