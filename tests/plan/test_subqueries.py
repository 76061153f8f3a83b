"""Subqueries in expressions are planned as joins."""

from __future__ import annotations

from pathlib import Path

import pytest
from cases import FIXTURES, Case, cases
from sketch import Sketch

from tailrace.errors import SqlError
from tailrace.plan.explain import compact
from tailrace.plan.facts import has_one_row, never_null
from tailrace.plan.nodes import Aggregate, Join, walk
from tailrace.plan.rewrite.rewriter import rewrite

TPCH = FIXTURES / "tpch"


@pytest.mark.parametrize("case", [pytest.param(c, id=c.title) for c in cases("subqueries")])
def test_plan(case: Case) -> None:
    sketch = Sketch()
    plan = sketch.plan(case.sql)
    assert compact(plan) == case.plan
    assert rewrite(plan, sketch.types).fingerprint == plan.fingerprint
    assert "^" not in case.plan
    assert "_subquery" not in case.plan.lower()


def queries() -> list[Path]:
    return sorted(TPCH.glob("q*.sql"))


@pytest.mark.parametrize("path", [pytest.param(p, id=p.stem) for p in queries()])
def test_tpch_joins_by_keys(path: Path) -> None:
    plan = Sketch((TPCH / "tables.sql").read_text()).plan(path.read_text())
    crossed = [n for n in walk(plan) if isinstance(n, Join) and not n.left_on]
    assert all(has_one_row(n.left) or has_one_row(n.right) for n in crossed), [compact(n) for n in crossed]


@pytest.mark.parametrize(
    ("sql", "message", "location"),
    [
        (
            "select a, (select a, b from u where u.a = t.a) as x from t",
            "a scalar subquery must have one column, but this one has 2",
            (1, 12),
        ),
        ("select a from t where b in (select a, b from u)", "1 value with a subquery of 2 columns", (1, 29)),
        ("select a from t where b in (select nope from u)", "no column named 'nope'", (1, 36)),
        ("select a from t where exists (select 1 from u where u.a = t.nope)", "no column named 't.nope'", (1, 59)),
        (
            "select b from t group by b having exists (select 1 from u where u.a = t.d)",
            "no column named 't.d'",
            (1, 71),
        ),
        ("select a from t where (select max(b) from u)", "WHERE needs a condition", (1, 24)),
    ],
)
def test_mistakes(sql: str, message: str, location: tuple[int, int]) -> None:
    with pytest.raises(SqlError) as caught:
        Sketch().build(sql)
    assert message in str(caught.value)
    assert (caught.value.line, caught.value.column) == location


def test_equal_domains_are_one_state() -> None:
    plan = Sketch().plan(
        "select a from t where exists (select 1 from lines l where l.id = t.b and l.qty <> t.d)"
        " and not exists (select 1 from lines l where l.id = t.b and l.qty > t.d)"
    )
    domains = {n.fingerprint for n in walk(plan) if isinstance(n, Aggregate)}
    assert len(domains) == 1


@pytest.mark.parametrize(
    ("sql", "expected"),
    [
        ("select a from t", True),
        ("select b from t", False),
        ("select b from t where b > 1", True),
        ("select b from t where b > 1 or a = 1", False),
        ("select t.b from t join u on t.b = u.a", True),
        ("select t.b from t join u on t.b <=> u.a", False),
        ("select u.a from t left join u on t.a = u.a", False),
        ("select count(*) as n from t group by b", True),
        ("select max(b) as n from t group by b", False),
        ("select a from t union all select a from u", True),
        ("select a from t union all select b from t", False),
        ("select 1 as one from t", True),
    ],
)
def test_never_null(sql: str, expected: bool) -> None:
    assert never_null(Sketch().plan(sql), 0) is expected
