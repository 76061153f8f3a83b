"""Each rewrite against its fixture file, and what must hold of all rewrites together."""

from __future__ import annotations

import pytest
from cases import Case, cases
from sketch import Sketch

from tailrace.plan.explain import compact
from tailrace.plan.rewrite import rewriter
from tailrace.plan.rewrite.rewriter import REWRITES, rewrite

EACH = [
    pytest.param(rule, case, id=f"{rule.__name__}: {case.title or case.sql}")
    for rule in REWRITES
    for case in cases(rule.__name__)
]


@pytest.mark.parametrize(("rule", "case"), EACH)
def test_rewrite(rule: rewriter.Rewrite, case: Case) -> None:
    sketch = Sketch()
    assert compact(rule(sketch.build(case.sql), sketch.types)) == case.plan


@pytest.mark.parametrize("case", [pytest.param(c, id=c.title or c.sql) for c in cases("rewrite")])
def test_all_rewrites(case: Case) -> None:
    assert compact(Sketch().plan(case.sql)) == case.plan


@pytest.mark.parametrize("case", [p.values[1] for p in EACH] + cases("rewrite"))
def test_a_rewritten_plan_keeps_its_columns_and_stays_as_it_is(case: Case) -> None:
    sketch = Sketch()
    built = sketch.build(case.sql)
    planned = rewrite(built, sketch.types)
    assert planned.columns == built.columns
    assert rewrite(planned, sketch.types).fingerprint == planned.fingerprint


def test_every_rewrite_says_what_it_does_with_an_example() -> None:
    for rule in REWRITES:
        assert rule.__module__.rpartition(".")[2] == rule.__name__, "a rule's file has the rule's name"
        assert rule.__doc__ is not None
        assert "->" in rule.__doc__, rule.__name__


def test_views_that_say_the_same_have_one_fingerprint() -> None:
    sketch = Sketch()
    one = sketch.plan("select o.cust c, sum(o.price) s from orders o where o.day > date'2026-01-01' group by o.cust")
    two = sketch.plan(
        "with recent as (select * from orders where DAY > DATE '2026-01-01')"
        " select x.cust, SUM( x.price ) from (select cust, price from recent) x group by 1"
    )
    assert one.fingerprint == two.fingerprint
    assert [c.name for c in one.columns] == ["c", "s"]
