"""Several statements in one text: each acts as if it were alone, but views over small tables share one build job."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
from pyspark.sql import SparkSession

import tailrace as tr
from tailrace.epochs.protocol import Epochs
from tailrace.errors import BuildFailed, NameTaken, SqlError

TOTAL = "CREATE MATERIALIZED VIEW total AS SELECT g, SUM(v) AS s FROM a GROUP BY g"
LARGE = "CREATE MATERIALIZED VIEW large AS SELECT id, v FROM a WHERE v > 5"
OVER = "CREATE MATERIALIZED VIEW over AS SELECT g, s FROM total WHERE s > 10"
RANKED = "CREATE MATERIALIZED VIEW ranked WITH (refresh = 'full') AS SELECT id, rank() OVER (ORDER BY v) AS r FROM a"


@pytest.fixture
def db(tmp_path: Path, spark: SparkSession) -> Iterator[tr.Database]:
    with tr.open(tmp_path / "store", create=True, spark=spark, map_size=1 << 28) as opened:
        opened.sql("CREATE TABLE a (id INT PRIMARY KEY, g INT, v INT)")
        opened.table("a").put_many([{"id": i, "g": i % 3, "v": i} for i in range(10)])
        yield opened


@pytest.fixture
def builds(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """The number of views of each build job."""
    seen: list[int] = []
    build = Epochs.build

    def counted(self: Epochs, maintained: object, views: list[object], fixed: object) -> None:
        seen.append(len(views))
        build(self, maintained, views, fixed)  # type: ignore[arg-type]

    monkeypatch.setattr(Epochs, "build", counted)
    return seen


def test_views_are_built_together(db: tr.Database, builds: list[int]) -> None:
    db.sql("; ".join((TOTAL, LARGE, OVER, RANKED)))
    assert builds == [4]
    assert db.view("over").scan().to_pylist() == [{"g": 0, "s": 18}, {"g": 1, "s": 12}, {"g": 2, "s": 15}]
    db.table("a").put_many([{"id": 10, "g": 1, "v": 100}, {"id": 9, "g": 0, "v": -18}])
    db.refresh()
    assert db.view("over").get(1) == {"g": 1, "s": 112}
    assert all(db.verify(name).ok for name in ("total", "large", "over", "ranked"))


def test_views_before_a_failing_statement_are_created(db: tr.Database) -> None:
    with pytest.raises(SqlError, match="nowhere"):
        db.sql("; ".join((TOTAL, LARGE, "CREATE MATERIALIZED VIEW bad AS SELECT * FROM nowhere", OVER)))
    assert sorted(db.views()) == ["large", "total"]


def test_a_second_view_of_the_same_name_is_refused(db: tr.Database) -> None:
    with pytest.raises(NameTaken, match="total"):
        db.sql("; ".join((TOTAL, LARGE, TOTAL)))
    assert sorted(db.views()) == ["large", "total"]


def test_a_failing_build_does_not_undo_the_views_before_it(db: tr.Database) -> None:
    raising = "CREATE MATERIALIZED VIEW raising AS SELECT id, CAST(raise_error('no') AS INT) AS e FROM a"
    with pytest.raises(BuildFailed, match="raising"):
        db.sql("; ".join((TOTAL, raising, LARGE)))
    assert db.views() == ["total"]
    assert db.verify("total").ok


def test_a_table_dropped_in_the_same_text_is_unknown_afterwards(db: tr.Database) -> None:
    db.sql("CREATE TABLE b (id INT PRIMARY KEY)")
    gone = "CREATE MATERIALIZED VIEW {} WITH (refresh = 'full') AS SELECT id, rand() > 2 AS r FROM b"
    with pytest.raises(SqlError):
        db.sql(f"{gone.format('one')}; DROP TABLE b; {gone.format('two')}")
    with pytest.raises(SqlError):
        db.sql(f"CREATE MATERIALIZED VIEW x AS SELECT id FROM b; DROP VIEW x; DROP TABLE b; {gone.format('y')}")
    assert db.views() == []
