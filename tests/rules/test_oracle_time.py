"""Views that read the time: compared with Spark at the time of the epoch, while time jumps and rows change."""

from __future__ import annotations

import random
from collections.abc import Sequence
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest
from oracle import Model, random_step, wide_store

import tailrace as tr
from tailrace.database.inside import inside
from tailrace.store.commits import read_committed

BORDERS = [
    "SELECT id, g, t FROM a WHERE t > now() - INTERVAL 1 HOUR",
    "SELECT id, h FROM a WHERE t + INTERVAL 90 MINUTES >= current_timestamp()",
    "SELECT id, t FROM a WHERE t BETWEEN now() - INTERVAL 2 HOURS AND now()",
    "SELECT id, d FROM a WHERE d >= current_date() - 1",
    "SELECT id, d FROM a WHERE d = current_date()",
    "SELECT id, t FROM a WHERE NOT (t > now()) AND d > current_date() AND n > 0",
    "SELECT id FROM a WHERE now() - t < INTERVAL 1 HOUR AND g IS NOT NULL",
    "SELECT g, h FROM a WHERE now() BETWEEN t AND CAST(d AS TIMESTAMP) + INTERVAL 12 HOURS",
    "SELECT id FROM a WHERE t >= date_trunc('HOUR', now()) AND t < date_add(current_date(), 1)",
    "SELECT id FROM a WHERE t + INTERVAL 1 MONTH > now() AND d <= to_date(now())",
    "SELECT id FROM a WHERE localtimestamp() > CAST(t AS TIMESTAMP_NTZ) - INTERVAL '0 01:30:00' DAY TO SECOND",
    "SELECT id FROM a WHERE t = now()",
]
NESTED = [
    "SELECT g, count(*) AS c, sum(n) AS s, min(t) AS f FROM a WHERE t > now() - INTERVAL 1 HOUR GROUP BY g",
    "SELECT count(*) AS c FROM a WHERE t <= now()",
    "SELECT g, max(t) AS m FROM a GROUP BY g HAVING max(t) > now() - INTERVAL 30 MINUTES",
    "SELECT a.id, b.id AS other FROM a JOIN b ON a.g = b.g AND b.t > now() - INTERVAL 1 HOUR WHERE a.t <= now()",
    "SELECT a.id, b.id AS other FROM a LEFT JOIN b ON a.g = b.g AND b.t > now() - INTERVAL 1 HOUR",
    "SELECT a.id, b.id AS other FROM a LEFT JOIN b ON a.g = b.g AND a.t > now() - INTERVAL 1 HOUR",
    "SELECT a.id, b.id AS other FROM a FULL JOIN b ON a.g = b.g AND a.t > now() AND b.t > now() - INTERVAL 2 HOURS",
    "SELECT id FROM a WHERE g IN (SELECT g FROM b WHERE t > now())",
    "SELECT id FROM a WHERE NOT EXISTS (SELECT 1 FROM b WHERE b.g = a.g AND b.t > now() - INTERVAL 1 HOUR)",
    "SELECT id FROM a WHERE t > now() UNION ALL SELECT id FROM b WHERE t <= now()",
    "SELECT DISTINCT h FROM a WHERE t > now() - INTERVAL 1 HOUR",
    "SELECT id, row_number() OVER (PARTITION BY g ORDER BY id) AS r FROM a WHERE t > now() - INTERVAL 1 HOUR",
    "SELECT id, g FROM a WHERE t <= now() ORDER BY id LIMIT 3",
    "SELECT g, sort_array(collect_list(id)) AS ids FROM a WHERE d >= current_date() GROUP BY g",
    "SELECT id FROM v0 WHERE c > 0 AND now() < t",
]


class Jumping:
    """A clock that moves only when it is told to."""

    def __init__(self, rng: random.Random) -> None:
        self._rng = rng
        self.now = int(datetime(2026, 1, 1, tzinfo=UTC).timestamp() * 1_000_000)

    def __call__(self) -> int:
        return self.now

    def jump(self) -> None:
        """Forward by nothing, a microsecond, some minutes or some hours, often exactly to a full hour."""
        hour = 3_600_000_000
        step = self._rng.choice([0, 1, self._rng.randrange(hour), hour, 5 * hour, 24 * hour])
        self.now += step
        if self._rng.random() < 0.5:
            self.now += -self.now % hour + self._rng.choice([-1, 0, 1])


def _change(rng: random.Random, model: Model, names: str) -> None:
    for _ in range(rng.randrange(4)):
        random_step(rng, model, rng.choice(names), 13)


def follow(db: tr.Database, views: Sequence[str], rng: random.Random, names: str, *, spread: bool, epochs: int) -> None:
    model, clock = Model(db), Jumping(rng)
    inside(db).epochs.clock = clock
    if spread:
        inside(db).epochs.jobs.small = -1
    for _ in range(6):
        random_step(rng, model, rng.choice(names), 13)
    for number, sql in enumerate(views):
        db.sql(f"CREATE MATERIALIZED VIEW v{number} AS {sql}")
    model.check()
    for _ in range(epochs):
        clock.jump()
        _change(rng, model, names)
        db.refresh()
        model.check()
    clock.now += 10 * 86_400_000_000
    db.refresh()
    model.check()


@pytest.mark.parametrize("spread", [False, True])
def test_borders_are_crossed_exactly(tmp_path: Path, spark: Any, spread: bool) -> None:
    with wide_store(tmp_path / "s", spark, "a") as db:
        follow(db, BORDERS, random.Random(7 + spread), "a", spread=spread, epochs=8)


@pytest.mark.parametrize("spread", [False, True])
def test_time_below_all_operators(tmp_path: Path, spark: Any, spread: bool) -> None:
    first = "SELECT id, t, count(*) AS c FROM a WHERE t > now() - INTERVAL 1 HOUR GROUP BY id, t"
    with wide_store(tmp_path / "s", spark, "ab") as db:
        follow(db, [first, *NESTED], random.Random(3 + spread), "ab", spread=spread, epochs=4)
        for name in db.views():
            assert db.verify(name).ok
        assert not db.audit().findings


def test_an_epoch_of_time_alone_touches_only_due_views(tmp_path: Path, spark: Any) -> None:
    with wide_store(tmp_path / "s", spark, "ab") as db:
        clock = Jumping(random.Random(1))
        inside(db).epochs.clock = clock
        start = clock.now
        db.sql("CREATE MATERIALIZED VIEW near AS SELECT id FROM a WHERE t <= now()")
        db.sql("CREATE MATERIALIZED VIEW far AS SELECT id FROM b WHERE t <= now()")
        at = datetime.fromtimestamp(start / 1_000_000, UTC)
        db.table("a").put_many([{"id": i, "t": at + timedelta(hours=1 + i)} for i in range(3)])
        db.table("b").put_many([{"id": 1, "t": at + timedelta(days=1)}])
        first = db.refresh()
        assert first.next_due == start + 3_600_000_000
        assert db.refresh().number == first.number, "nothing is due"
        clock.now = first.next_due
        epoch = db.refresh()
        assert (epoch.number, epoch.operations, epoch.view_rows) == (first.number + 1, 0, 1)
        assert epoch.next_due == start + 2 * 3_600_000_000
        assert db.view("near").scan().num_rows == 1
        assert db.view("far").scan().num_rows == 0
        clock.now -= 1_000_000  # a clock that goes back changes nothing
        assert db.refresh().number == epoch.number
        db.table("a").put({"id": 9, "t": at + timedelta(hours=1)})
        db.refresh()
        assert read_committed(inside(db).store).time == start + 3_600_000_000
        assert db.view("near").scan().num_rows == 2
