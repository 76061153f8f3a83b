"""Refresh policies `full` and `auto`: views equal recomputation after every epoch, and the choice is recorded."""

from __future__ import annotations

import random
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from crashes import crash_before_commit
from oracle import WIDE, Model, random_step

import tailrace as tr
from tailrace.database.inside import inside
from tailrace.epochs import records
from tailrace.errors import SqlError, Unsupported
from tailrace.store.commits import read_committed

RECOMPUTE, DELTAS = -(10**9), 10**9  # values of `overhead` that force one choice

ANY = {
    "beside": "SELECT a.id, a.g, s.m FROM a LEFT JOIN LATERAL explode(array(a.g, a.id)) AS s(m) ON s.m >= a.id",
    "ranked": "SELECT id, g, rank() OVER (PARTITION BY g ORDER BY n, id) AS r FROM a",
    "top": "SELECT id, n FROM a ORDER BY n DESC NULLS LAST, id LIMIT 3",
    "both": "SELECT g FROM a INTERSECT SELECT g FROM c",
    "cube": "SELECT g, h, SUM(p) AS s FROM a GROUP BY CUBE (g, h)",
    "there": "SELECT id, (SELECT MAX(c.n) FROM c WHERE c.g = a.g) AS m FROM a",
}
PLANNED = {
    "totals": "SELECT g, SUM(p) AS s, COUNT(*) AS n, MIN(h) AS lo, SUM(x) AS sx FROM a GROUP BY g",
    "pairs": "SELECT a.id, c.id AS cid, c.tag, a.p FROM a JOIN c ON a.g = c.g",
    "lonely": "SELECT a.id, a.h, c.tag FROM a LEFT JOIN c ON a.id = c.id",
    "spread": "SELECT sd FROM (SELECT g, stddev(n) AS sd FROM a GROUP BY g)",
    "one": "SELECT COUNT(*) AS n, MAX(d) AS d FROM a",
    "bag": "SELECT g, h FROM a WHERE b",
    "hs": "SELECT DISTINCT h FROM a UNION ALL SELECT h FROM c",
    "first": ANY["top"],
    "places": ANY["ranked"],
    "larger": "SELECT id, n FROM a WHERE n > (SELECT AVG(n) FROM c) OR g IN (SELECT g FROM c WHERE b)",
}


@pytest.fixture
def db(tmp_path: Path, spark: Any) -> Iterator[tr.Database]:
    with tr.open(tmp_path / "s", create=True, spark=spark, map_size=1 << 30) as database:
        database.sql(f"CREATE TABLE a (id INT PRIMARY KEY, {WIDE})")
        database.sql(f"CREATE TABLE c (id INT, tag STRING, {WIDE}, PRIMARY KEY (id, tag))")
        yield database


def create(db: tr.Database, policy: str, views: dict[str, str], prefix: str = "") -> None:
    for name, sql in views.items():
        db.sql(f"CREATE MATERIALIZED VIEW {prefix}{name} WITH (refresh = '{policy}') AS {sql}")


def random_steps(rng: random.Random, model: Model, count: int) -> None:
    for _ in range(count):
        random_step(rng, model, rng.choice("aac"), 12)


@pytest.mark.parametrize("spread", [False, True], ids=["one-task", "all-shards"])
def test_full_views_equal_recomputation(db: tr.Database, spread: bool) -> None:
    rng, model = random.Random(f"full{spread}"), Model(db)
    if spread:
        inside(db).epochs.jobs.small = -1
    random_steps(rng, model, 5)
    create(db, "full", {**ANY, "totals": PLANNED["totals"], "bag": PLANNED["bag"]})
    db.sql(
        "CREATE MATERIALIZED VIEW over_full WITH (refresh = 'full') AS SELECT g, COUNT(*) AS n FROM beside GROUP BY g"
    )
    model.check()
    assert db.view("totals").key == ["g"], "the key comes from the plan"
    assert db.view("beside").key is None
    assert inside(db).catalog.states == {}, "only the view's rows are stored"
    for _ in range(2):
        random_steps(rng, model, 6)
        epoch = db.refresh()
        assert {way.taken for way in epoch.refreshed.values()} == {"recomputed"}
        model.check()
    for name in "ac":
        model.delete(name, [k if len(k) > 1 else k[0] for k in model.tables[name]])
    db.refresh()
    model.check()
    assert db.verify("cube").ok


@pytest.mark.parametrize("spread", [False, True], ids=["one-task", "all-shards"])
def test_auto_views_equal_recomputation_whether_recomputed_or_updated_by_deltas(db: tr.Database, spread: bool) -> None:
    rng, model = random.Random(f"auto{spread}"), Model(db)
    if spread:
        inside(db).epochs.jobs.small = -1
    random_steps(rng, model, 5)
    create(db, "auto", PLANNED)
    create(db, "incremental", {n: PLANNED[n] for n in ("totals", "spread", "pairs")}, prefix="also_")
    for overhead in (RECOMPUTE, DELTAS, RECOMPUTE, RECOMPUTE, DELTAS):
        inside(db).epochs.overhead = overhead
        random_steps(rng, model, 5)
        epoch = db.refresh()
        expected = "recomputed" if overhead == RECOMPUTE else "deltas"
        assert {way.taken for way in epoch.refreshed.values()} == {expected}
        model.check()
    inside(db).epochs.overhead = RECOMPUTE
    for name in "ac":
        model.delete(name, [k if len(k) > 1 else k[0] for k in model.tables[name]])
    db.refresh()
    model.check()
    inside(db).epochs.overhead = DELTAS
    random_steps(rng, model, 4)
    db.refresh()
    model.check()


def test_the_choice_follows_the_share_of_the_table_that_changed(db: tr.Database) -> None:
    db.table("a").put_many([{"id": i, "g": i % 5, "p": i} for i in range(200)])
    create(db, "auto", {"totals": PLANNED["totals"]})
    inside(db).epochs.overhead = 0
    db.table("a").put_many([{"id": i, "g": 9, "p": i} for i in range(5)])
    assert db.refresh().refreshed["totals"].taken == "deltas"
    db.table("a").put_many([{"id": i, "g": 8, "p": i} for i in range(190)])
    way = db.refresh().refreshed["totals"]
    assert way.taken == "recomputed"
    assert way.reason.startswith("deltas would cost 1,140")
    db.table("c").put({"id": 1, "tag": "x"})
    assert db.refresh().refreshed == {}, "a view whose tables did not change is not refreshed"
    assert db.verify("totals").ok


def test_status_and_explain_show_how_a_view_was_refreshed_and_why(db: tr.Database) -> None:
    create(db, "auto", {"beside": ANY["beside"], "totals": PLANNED["totals"]})
    create(db, "full", {"top": ANY["top"]})
    db.table("a").put({"id": 1, "g": 1, "n": 5})
    db.refresh()
    views = {v["name"]: v for v in db.status().views}
    assert views["beside"]["refreshed"]["taken"] == "recomputed"
    assert "LEFT JOIN LATERAL with a condition" in views["beside"]["refreshed"]["reason"]
    assert (views["top"]["refresh"], views["top"]["refreshed"]["taken"]) == ("full", "recomputed")
    assert views["totals"]["refreshed"]["taken"] == "deltas"
    assert db.status().epochs[0]["refreshed"].keys() == {"beside", "totals", "top"}
    assert "LEFT JOIN LATERAL with a condition" in db.explain("beside")
    assert "refresh auto" in db.explain("totals")
    assert db.explain("totals", json=True)["refresh"]["last"]["taken"] == "deltas"
    assert db.explain("top", json=True)["plan"] is None
    for number in range(records.HELD + 3):
        db.table("c").put({"id": number, "tag": "t"})
        db.refresh()
    assert len(db.status().epochs) == records.HELD


def test_views_over_views_that_are_recomputed(db: tr.Database) -> None:
    create(db, "full", {"beside": ANY["beside"], "totals": PLANNED["totals"]})
    with pytest.raises(Unsupported) as error:
        db.sql("CREATE MATERIALIZED VIEW v AS SELECT id FROM beside")
    assert "recomputed" in error.value.reason
    db.sql("CREATE MATERIALIZED VIEW v AS SELECT s, COUNT(*) AS k FROM totals GROUP BY s")  # inlined
    db.sql("CREATE MATERIALIZED VIEW w WITH (refresh = 'auto') AS SELECT id FROM beside WHERE m = id")
    db.table("a").put_many([{"id": i, "g": i % 3, "p": i, "n": i} for i in range(7)])
    db.refresh()
    for name in db.views():
        assert db.verify(name).ok
    assert db.view("w").scan().num_rows == 10


@pytest.mark.parametrize("policy", ["auto", "full"])
@pytest.mark.parametrize(
    ("sql", "error"),
    [
        ("SELECT rand() AS r FROM a", Unsupported),
        ("SELECT id, rank() OVER (ORDER BY id) AS r, current_date AS d FROM a", Unsupported),
        ("SELECT nope, rank() OVER (ORDER BY id) AS r FROM a", SqlError),
        ("SELECT id, id, rank() OVER (ORDER BY id) AS r FROM a", SqlError),
        ("SELECT id, rank() OVER (ORDER BY id) AS r FROM nowhere", SqlError),
    ],
)
def test_queries_that_cannot_be_recomputed_are_refused(
    db: tr.Database, policy: str, sql: str, error: type[Exception]
) -> None:
    with pytest.raises(error):
        create(db, policy, {"v": sql})
    assert db.views() == []


ALTERNATIVE = "WITH (refresh = 'auto') would recompute it in each epoch"


@pytest.mark.parametrize(
    ("sql", "accepted"),
    [
        (ANY["beside"], True),
        ("SELECT id, n FROM a ORDER BY id LIMIT (2 + 1)", True),
        ("SELECT id, rand() AS r FROM a", False),
        (
            "SELECT id FROM a WHERE 1 < (SELECT COUNT(*) + (SELECT MAX(d.id) FROM c AS d WHERE d.id = a.id) FROM c)",
            False,
        ),
        ("SELECT nope FROM a", False),
    ],
)
def test_a_refusal_says_whether_recomputing_is_possible(db: tr.Database, sql: str, accepted: bool) -> None:
    with pytest.raises(SqlError) as caught:
        db.sql(f"CREATE MATERIALIZED VIEW v AS {sql}")
    assert (ALTERNATIVE in str(caught.value)) == accepted
    if accepted:
        create(db, "auto", {"v": sql})
    else:
        with pytest.raises(SqlError):
            create(db, "auto", {"v": sql})


def test_a_repeated_epoch_keeps_its_recorded_choice(db: tr.Database) -> None:
    rng, model = random.Random(7), Model(db)
    create(db, "auto", PLANNED)
    create(db, "full", {"beside": ANY["beside"]})
    random_steps(rng, model, 5)
    db.refresh()
    before = {name: db.view(name).scan().to_pylist() for name in db.views()}
    number = read_committed(inside(db).store).epoch
    inside(db).epochs.overhead = RECOMPUTE
    random_steps(rng, model, 5)
    crash_before_commit(db)
    assert {name: db.view(name).scan().to_pylist() for name in db.views()} == before, (
        "readers stay at the committed epoch"
    )
    inside(db).epochs.overhead = DELTAS
    epoch = db.refresh()
    assert (epoch.number, {w.taken for w in epoch.refreshed.values()}) == (number + 1, {"recomputed"})
    model.check()


def test_a_limit_without_order_by_is_refused_if_spark_recomputes_the_view(db: tr.Database) -> None:
    with pytest.raises(Unsupported):
        create(db, "full", {"v": "SELECT id FROM a LIMIT 3"})
