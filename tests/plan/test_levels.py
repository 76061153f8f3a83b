"""Subqueries that read columns two or more levels outside them are rewritten for Spark."""

from __future__ import annotations

import pytest
from cases import Case, cases
from sketch import Sketch

from tailrace.errors import Unsupported
from tailrace.plan.build.one_level import one_level
from tailrace.plan.sql.dialect import generate
from tailrace.plan.sql.statements import parse_query


def rewritten(sql: str) -> str:
    sketch = Sketch()
    return generate(one_level(parse_query(sql), sketch, sketch.types))


@pytest.mark.parametrize("case", [pytest.param(c, id=c.title) for c in cases("levels")])
def test_rewriting(case: Case) -> None:
    assert rewritten(case.sql) == case.plan
    assert rewritten(case.plan) == case.plan


def test_a_query_without_such_references_keeps_its_tree() -> None:
    query = parse_query("select a from t where exists (select 1 from u where u.a in (select x from w where w.y = u.b))")
    assert one_level(query, Sketch(), Sketch().types) is query


@pytest.mark.parametrize(
    ("sql", "reason"),
    [
        (
            "select a, (select count(*) + (select max(x) from w where w.y = t.b) from u) as m from t",
            "an aggregate without GROUP BY; compute it in a subquery in FROM",
        ),
        (
            "select a from t where exists (select u.b from u group by rollup (u.b)"
            " having count(*) > (select count(*) from w where w.y = t.b))",
            "groups by more than expressions; move the subquery to WHERE",
        ),
        (
            "select a from t where exists (select 1 from u full join w on u.a = w.x and"
            " exists (select 1 from nested where k = t.b))",
            "has a RIGHT or FULL JOIN; move the subquery from ON to WHERE",
        ),
        (
            "select a from t where exists (with t as (select 1 as z) select 1 from u"
            " where exists (select 1 from w where w.x = t.d))",
            "'t' in WITH hides a relation of the outer query; give it another name",
        ),
        (
            "select a from t where exists (select struct(*) from u where exists (select 1 from w where w.x = t.b))",
            "name the columns instead of * in the call of a function",
        ),
        (
            "select a from t where exists (select 1 from (u join nested n on exists"
            " (select 1 from w where w.x = t.b)))",
            "move the subquery to WHERE or the select list of the query around it",
        ),
        (
            "select a from t where exists (select 1 from u join nested n join w z on z.x in"
            " (select x from w where w.y = t.b) on n.k = u.a)",
            "move the subquery to WHERE or the select list of the query around it",
        ),
        (
            "select a from t where exists (select 1 from u having exists (select 1 from w where w.x = t.b))",
            "an aggregate without GROUP BY; compute it in a subquery in FROM",
        ),
        (
            "select a from t where exists (select 1 from nested, lateral (select x from w where w.y = t.b) s"
            " cross join u t)",
            "the query in between has a column of this name, too",
        ),
    ],
)
def test_refused(sql: str, reason: str) -> None:
    with pytest.raises(Unsupported, match="of a query two levels outside its subquery") as caught:
        rewritten(sql)
    assert reason in caught.value.reason
    assert (caught.value.line, caught.value.column) == (1, max(sql.rfind("t.b"), sql.rfind("t.d")) + 1)
