"""If only one side of a join changed, its task looks the other side up (`Lookup`), with the same result."""

from __future__ import annotations

import random
from pathlib import Path
from typing import Any

import pytest
from crashes import crash_before_commit
from oracle import Model, random_step, wide_store

from tailrace.database.inside import inside
from tailrace.spark.compile import Compiler

VIEWS = (
    "SELECT a.id, b.id AS other, a.n, b.h FROM a JOIN b ON a.g = b.g",
    "SELECT b.id, a.id AS other FROM b JOIN a ON a.g = b.g AND a.h = b.h WHERE a.n < 5",
    "SELECT a.g, b.h FROM a JOIN b ON a.g <=> b.g",  # without a key: rows are stored with weights
    "SELECT a.id, a.x, b.p FROM a JOIN b ON a.n = b.id",
    "SELECT b.h, COUNT(*) AS n, SUM(a.p) AS total FROM a JOIN b ON a.g = b.g GROUP BY b.h",
    "SELECT a.id, b.id AS second, c.id AS third, c.tag FROM a JOIN b ON a.g = b.g JOIN c ON b.h = c.h",
    "SELECT x.id, y.id AS other FROM a x JOIN a y ON x.g = y.h",  # both sides change together
    "SELECT a.id, b.id AS other FROM a LEFT JOIN b ON a.g = b.g",
)


@pytest.mark.parametrize("seed", range(3))
def test_changes_of_either_side_or_both(tmp_path: Path, spark: Any, monkeypatch: pytest.MonkeyPatch, seed: int) -> None:
    looked_up: list[str] = []
    original = Compiler._look_up

    def spied(self: Compiler, rule: Any, number: int, *rest: Any) -> Any:
        looked_up.append("ab"[number])
        return original(self, rule, number, *rest)

    monkeypatch.setattr(Compiler, "_look_up", spied)
    rng = random.Random(seed)
    with wide_store(tmp_path / "s", spark, "abc") as db:
        model = Model(db)
        for name in "abc" * 3:
            random_step(rng, model, name, 13)
        for number, sql in enumerate(VIEWS):
            db.sql(f"CREATE MATERIALIZED VIEW v{number} AS {sql}")
        inside(db).epochs.jobs.small = -1
        for changed in ("a", "b", "ab", "c", "a", "bc", "b"):
            inside(db).epochs.jobs.frames.clear()  # forces compilation
            looked_up.clear()
            for name in changed * 4:
                random_step(rng, model, name, 13)
            db.refresh()
            model.check()
            assert bool(looked_up) == (changed != "ab"), changed
        assert all(report.ok for report in map(db.verify, db.views()))


def test_a_lookup_needs_no_exchange(tmp_path: Path, spark: Any) -> None:
    with wide_store(tmp_path / "s", spark, "ab") as db:
        db.sql(f"CREATE MATERIALIZED VIEW v AS {VIEWS[0]}")
        view = inside(db).catalog.views["v"]
        assert view.place == (0,)
        db.table("b").put_many([{"id": i, "g": i % 3} for i in range(9)])
        db.refresh()
        inside(db).epochs.jobs.small = -1
        db.table("a").put_many([{"id": i, "g": i % 3} for i in range(9)])
        db.refresh()
        (frame,) = [k.frame for k in inside(db).epochs.jobs.frames.values() if k.frame is not None and not k.reusable]
        plan = frame._jdf.queryExecution().executedPlan().toString()
        assert plan.count("Exchange") == 1, "only that of the arrangement"
        assert len(db.view("v").scan()) == 27
        assert db.view("v").get((4, 7)) == {"id": 4, "other": 7, "n": None, "h": None}
        assert db.verify("v").ok


def test_a_repeated_lookup_is_applied_once(tmp_path: Path, spark: Any) -> None:
    with wide_store(tmp_path / "s", spark, "ab") as db:
        db.sql(f"CREATE MATERIALIZED VIEW v AS {VIEWS[0]}; CREATE MATERIALIZED VIEW w AS {VIEWS[1]}")
        model = Model(db)
        model.put("b", [{"id": i, "g": i % 3, "h": "a"} for i in range(9)])
        model.put("a", [{"id": i, "g": i % 3, "h": "a", "n": 1} for i in range(9)])
        db.refresh()
        inside(db).epochs.jobs.small = -1
        model.put("a", [{"id": i, "g": 1, "h": "a", "n": 2} for i in range(4)])
        model.delete("a", [7, 8])
        for _ in range(2):
            crash_before_commit(db)
        db.refresh()
        model.check()
