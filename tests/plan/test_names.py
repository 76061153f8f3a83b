"""Name resolution, and the errors for unknown and ambiguous names."""

from __future__ import annotations

import pytest
from cases import Case, cases
from sketch import Sketch

from tailrace.errors import SqlError, UnknownName
from tailrace.plan.explain import compact


@pytest.mark.parametrize(
    ("sql", "kind", "name", "location", "hint"),
    [
        ("select zz from t", "column", "zz", (1, 8), ""),
        ("select id,\n  prise from orders", "column", "prise", (2, 3), "price"),
        ("select x.a from t", "column", "x.a", (1, 8), "a"),
        ("select t.a from t x", "column", "t.a", (1, 8), "a"),
        ("select a from nope", "table or view", "nope", (1, 15), ""),
        ("select cust from order", "table or view", "order", (1, 18), "orders"),
        ("with p as (select a from t) select a from pp", "table or view", "pp", (1, 43), "p"),
        ("select zz.* from t", "table or alias", "zz", (1, 8), ""),
        ("select * except (zz) from t", "column", "zz", (1, 18), ""),
        ("select a from t join u using (zz)", "column", "zz", (1, 31), ""),
        ("select t.a from t left join u on t.a = u.q", "column", "u.q", (1, 40), ""),
        ("select a from t where q > 1", "column", "q", (1, 23), ""),
        ("select a from t group by q", "column", "q", (1, 26), ""),
        ("select a from t order by q", "column", "q", (1, 26), ""),
        ("select a from t semi join u on t.a = u.a where u.b = 1", "column", "u.b", (1, 48), "b"),
        ("select transform(xs, x -> y + 1) as z from nested", "column", "y", (1, 27), ""),
    ],
)
def test_unknown_names(sql: str, kind: str, name: str, location: tuple[int, int], hint: str) -> None:
    with pytest.raises(UnknownName) as caught:
        Sketch().build(sql)
    error = caught.value
    assert (error.kind, error.name, (error.line, error.column)) == (kind, name, location)
    assert error.hint == (f"; did you mean {hint!r}?" if hint else "")


@pytest.mark.parametrize(
    ("sql", "says", "location"),
    [
        ("select a from t, u", "ambiguous: it may be t.a or u.a", (1, 8)),
        ("select x from (select a as x, b as x from t) s", "ambiguous", (1, 8)),
        ("select a as x, b as X from t", "two columns of the view are named 'X'", (1, 16)),
        ("select * from t join u on t.a = u.a", "two columns of the view", (1, 1)),
        ("select b, c from t group by b", "column 'c' must be in GROUP BY", (1, 11)),
        ("select b, sum(a) + c as s from t group by b", "column 'c' must be in GROUP BY", (1, 20)),
        ("select b from t group by b having c = 'x'", "column 'c' must be in GROUP BY", (1, 35)),
        (
            "select sum(sum(a)) as s from t",
            "aggregate sum() inside aggregate sum() is not allowed",
            (1, 12),
        ),
        ("select a from t where sum(a) > 1", "not allowed in WHERE; use HAVING", (1, 23)),
        ("select a from t join u on sum(t.a) = 1", "not allowed in ON", (1, 27)),
        ("select a from t where b + 1", "WHERE needs a condition, not a value of type int", (1, 23)),
        ("select b, count(*) as n from t group by b having n", "HAVING needs a condition", (1, 50)),
        ("select b from t group by 3", "GROUP BY 3: the select list has 1 column", (1, 26)),
        ("select count(*) as n from t group by 1", "count() is not allowed in GROUP BY", (1, 8)),
        ("select a from t union all select a, b from u", "UNION of queries with 1 and 2 columns", (1, 27)),
        ("select a, nofunc(a) as n from t", "UNRESOLVED_ROUTINE", (1, 11)),
        ("select sum(nofunc(a)) as n from t", "UNRESOLVED_ROUTINE", (1, 12)),
        ("select a from t where nofunc(a)", "UNRESOLVED_ROUTINE", (1, 23)),
        ("with x(p, q) as (select a from t) select p from x", "WITH x: 1 column needs 1 alias, not 2", (1, 6)),
        ("select s.p from (select a from t) s(p, q)", "1 column needs 1 alias, not 2", (1, 35)),
        ("select a, null as n from t", "column 'n' has no type", (1, 19)),
        ("select a as _weight from t", "'_weight'", (1, 8)),
    ],
)
def test_faults(sql: str, says: str, location: tuple[int, int]) -> None:
    with pytest.raises(SqlError) as caught:
        Sketch().build(sql)
    assert says in str(caught.value)
    assert (caught.value.line, caught.value.column) == location


@pytest.mark.parametrize("case", [pytest.param(c, id=c.title) for c in cases("names")])
def test_names_resolve(case: Case) -> None:
    assert compact(Sketch().build(case.sql)) == case.plan


@pytest.mark.parametrize(
    ("sql", "names"),
    [
        (
            "select T.A, b as Bee, a + 1, st.h, upper(c) from t, nested",
            ["A", "Bee", "a + 1", "h", "upper(c)"],
        ),
        ("select * from t join u using (a, b)", ["a", "b", "c", "d", "e"]),
        ("select * except (C) from t", ["a", "b", "d"]),
        ("select a from t union all select b from u", ["a"]),
    ],
)
def test_output_names(sql: str, names: list[str]) -> None:
    assert [c.name for c in Sketch().plan(sql).columns] == names
