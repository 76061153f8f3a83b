"""Epochs run in several tasks if that pays off, given the cost of a row in their views."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

import tailrace as tr
from tailrace.database.inside import inside
from tailrace.epochs import jobs
from tailrace.plan.physical.sizing import SMALL, Cost, fits_one_task

QUERIES = {
    "SELECT id, v FROM a WHERE v > 1": Cost(1, 0),
    "SELECT v, id FROM a": Cost(1, 0),
    "SELECT g, COUNT(*) AS n, SUM(v) AS s FROM a GROUP BY g": Cost(1, 1),
    "SELECT g, SUM(f) AS s FROM a GROUP BY g": Cost(10, 1),
    "SELECT g, MAX(v) AS most FROM a GROUP BY g": Cost(50, 1),
    "SELECT g, MEDIAN(v) AS middle FROM a GROUP BY g": Cost(50, 1),
    "SELECT x.id, y.id AS other FROM a x JOIN a y ON x.g = y.g": Cost(50, 1),
    "SELECT b, COUNT(*) AS n FROM (SELECT g, MIN(v) AS b FROM a GROUP BY g) GROUP BY b": Cost(51, 2),
    "SELECT y.id FROM a x, a y, a z WHERE x.g = y.g AND y.v = z.v": Cost(100, 2),
    "WITH s AS (SELECT g, COUNT(*) AS n FROM a GROUP BY g) SELECT * FROM s UNION ALL SELECT g+1, n FROM s": Cost(1, 1),
    "SELECT id + 1 AS next FROM a": Cost(1, 1),
}


@pytest.fixture
def db(tmp_path: Path, spark: Any) -> Iterator[tr.Database]:
    with tr.open(tmp_path / "s", create=True, spark=spark, map_size=1 << 30) as database:
        database.sql("CREATE TABLE a (id INT PRIMARY KEY, g INT, v INT, f DOUBLE)")
        yield database


def test_cost_of_an_operation_for_a_view(db: tr.Database) -> None:
    for number, query in enumerate(QUERIES):
        db.sql(f"CREATE MATERIALIZED VIEW v{number} AS {query}")
    views = inside(db).catalog.views
    costs = {view.sql: view.sink.plan.cost for view in views.values() if view.sink is not None}
    assert [costs[views[f"v{number}"].sql] for number in range(len(QUERIES))] == list(QUERIES.values())


@pytest.mark.parametrize(
    ("costs", "most"),
    [
        ([Cost(1, 0)], 100_000),
        ([Cost(1, 0)] * 100, 1_000),
        ([Cost(1, 1)], 1_000_000),
        ([Cost(50, 1)], 20_000),
        ([Cost(50, 1)] * 100, 18_020),  # each view has an exchange of its own
        ([Cost(2000, 40)], 18_050),  # a view of forty joins
    ],
)
def test_most_operations_for_one_task(costs: list[Cost], most: int) -> None:
    assert fits_one_task(costs, most, SMALL)
    assert not fits_one_task(costs, most + 1, SMALL)
    assert not fits_one_task(costs, 0, -1)


def test_views_of_unchanged_tables_do_not_count(db: tr.Database, monkeypatch: pytest.MonkeyPatch) -> None:
    task_counts: list[int] = []
    original = jobs.Stages

    def spied(*given: Any) -> Any:
        task_counts.append(given[2])
        return original(*given)

    monkeypatch.setattr(jobs, "Stages", spied)
    db.sql("CREATE TABLE b (id INT PRIMARY KEY, g INT)")
    db.sql("CREATE MATERIALIZED VIEW light AS SELECT id FROM a WHERE v > 1")
    db.sql("CREATE MATERIALIZED VIEW heavy AS SELECT x.id, y.id AS other FROM b x JOIN b y ON x.g = y.g")
    inside(db).epochs.jobs.small = 20
    task_counts.clear()
    db.table("a").put_many([{"id": i, "g": 0, "v": i, "f": 0.0} for i in range(20)])
    db.refresh()
    assert task_counts == [1]
    db.table("b").put_many([{"id": i, "g": i} for i in range(20)])
    db.refresh()
    assert task_counts == [1, 2]
