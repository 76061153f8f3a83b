"""Unsupported SQL is refused with the construct's name and location."""

from __future__ import annotations

import pytest
from cases import Case, cases
from sketch import Sketch

from tailrace.errors import Unsupported


@pytest.mark.parametrize("case", [pytest.param(c, id=c.sql) for c in cases("unsupported")])
def test_unsupported(case: Case) -> None:
    with pytest.raises(Unsupported) as caught:
        Sketch().build(case.sql)
    error = caught.value
    assert f"{error.construct} @ {error.line}:{error.column}" == case.plan


@pytest.mark.parametrize(
    "sql",
    [
        "select sort_array(collect_list(b)) as xs from t",
        "select array_sort(collect_set(b)) as xs from t",
        "select listagg(c, ',') within group (order by c) as l from t",
        "select max_by(c, b) as m, mode(b, true) as k, mode() within group (order by b) as l from t",
        "select sort_array(collect_union(array(b))) as xs from t",
        "select unix_timestamp(d) as s from (select timestamp '2026-01-01 00:00:00' as d from t)",
        "select `current_date` from (select a as current_date from t)",
        "select localtimestamp from (select a as localtimestamp from t)",
        "select a from t order by b, rand()",
        "select /*+ BROADCAST(u) */ t.a from t join u on t.a = u.a",
    ],
)
def test_deterministic_forms_are_accepted(sql: str) -> None:
    sketch = Sketch()
    sketch.typer.types = lambda columns, expressions: ["int" if "=" not in e else "boolean" for e in expressions]
    sketch.build(sql)
