"""The fuzzer's queries are reproducible from their seed, parse, use every feature, and can be shortened."""

from __future__ import annotations

import pytest

from tailrace.plan.sql import dialect
from tailrace_fuzz.cuts import cuts
from tailrace_fuzz.features import Features
from tailrace_fuzz.scenarios import scenario

WORDS = {
    "time": "now()",
    "joins": " JOIN ", "outer": "FULL JOIN", "semi": "LEFT ANTI JOIN", "nonequi": "CROSS JOIN", "using": "USING (",
    "filter": "FILTER (WHERE", "distinct_aggregates": "COUNT(DISTINCT", "having": "HAVING", "grouping_sets": "ROLLUP",
    "distinct": "SELECT DISTINCT", "union": "UNION ALL", "setops": "INTERSECT", "subqueries": "FROM (SELECT",
    "cte": "WITH q", "in": " IN (SELECT", "exists": "EXISTS (SELECT", "explode": "LATERAL VIEW", "windows": "lead(",
    "limit": " LIMIT ", "rank": "row_number() OVER", "values": "(VALUES ", "views": " FROM v",
    "nested": ".pair",
    "lateral": "LATERAL (SELECT", "checked": "WHERE 1 = 0",
}  # fmt: skip


@pytest.fixture(scope="module")
def queries() -> list[str]:
    return [view.sql for group in range(40) for view in scenario("grammar", group, Features()).views]


def test_a_seed_is_a_scenario() -> None:
    assert scenario(7, 3, Features()) == scenario(7, 3, Features())
    assert scenario(7, 3, Features()) != scenario(8, 3, Features())


def test_a_view_alone_keeps_the_views_it_reads() -> None:
    full = scenario("grammar", 0, Features())
    reader = next(view for view in full.views if view.uses)
    alone = full.only([reader.number])
    assert set(reader.uses) <= {view.number for view in alone.views} < {view.number for view in full.views}


def test_queries_parse(queries: list[str]) -> None:
    assert all(len(dialect.parse(sql)) == 1 for sql in queries)


@pytest.mark.parametrize("feature", WORDS)
def test_features_can_be_used_and_left_out(queries: list[str], feature: str) -> None:
    assert any(WORDS[feature] in sql for sql in queries)
    if feature in ("joins", "subqueries"):
        return  # other features produce the word too
    left = Features.of(without=[feature, *(["windows"] if feature == "rank" else [])])
    views = [view.sql for group in range(10) for view in scenario("grammar", group, left).views]
    assert not any(WORDS[feature] in sql for sql in views)


def test_unknown_features_are_refused() -> None:
    with pytest.raises(ValueError, match="no feature 'jions'"):
        Features.of(only=["jions"])


def test_cuts_are_shorter_queries() -> None:
    sql = "SELECT a, b FROM (SELECT a, sum(b) AS b FROM t GROUP BY a HAVING sum(b) > 1) x WHERE a = 1 AND b = 2"
    shortened = list(cuts(sql))
    assert "SELECT a, SUM(b) AS b FROM t GROUP BY a HAVING SUM(b) > 1" in shortened
    assert any(cut.endswith("WHERE a = 1") for cut in shortened)
    assert any(cut.startswith("SELECT a FROM") for cut in shortened)
    assert all(dialect.parse(cut) for cut in shortened)
