"""`explain` against a snapshot: `tests/fixtures/plan/explain.txt`."""

from __future__ import annotations

import json

from cases import FIXTURES
from sketch import Sketch

from tailrace.plan.explain import explain_json, explain_tree
from tailrace.plan.nodes import from_json, to_json
from tailrace.plan.physical.physical_plan import PhysicalPlan
from tailrace.plan.physical.zones import view_place

VIEWS = {
    "spend": "select cust, sum(price) as total, count(*) as n from orders group by cust",
    "named": "select c.name, o.id, o.price from orders o join customers c using (cust) where price > 5",
    "again": "select price p, id, name from customers c, orders o where o.cust = c.cust and price > 5",
    "ranges": "select b, min(a) as lo, count(distinct c) as k from t group by b having count(*) > 1",
    "spread": "select b, stddev(a) as s from t group by b",
    "middle": "select b, median(a) as s from t group by b",
    "common": "select b from t intersect select b from u",
    "rolled": "select b, count(*) as n from t group by rollup(b)",
    "fixed": "select k, x from nested, (values (1), (2)) v(x)",
    "unmatched": "select t.a, u.e from t left join u on t.a = u.a and t.b > u.b",
    "latest": "select * from (select id, cust, price, row_number() over (partition by cust order by day desc) as rn"
    " from orders) where rn <= 3",
    "dearest": "select id, price from orders order by price desc limit 10 offset 5",
    "moving": "select id, avg(price) over (partition by cust order by day rows 6 preceding) as week from orders",
    "bag": "select distinct b from (select b from t union all select b from u)",
}


def plans() -> dict[str, PhysicalPlan]:
    sketch = Sketch()
    nodes = {name: sketch.plan(sql) for name, sql in VIEWS.items()}
    return {name: PhysicalPlan(node, node.key, view_place(node, node.key)) for name, node in nodes.items()}


def test_explain_tree() -> None:
    views = plans()
    shown = "\n\n".join(explain_tree(name, views) for name in views) + "\n"
    assert shown == (FIXTURES / "explain.txt").read_text()


def test_explain_json_says_the_same_as_data() -> None:
    document = explain_json("named", plans())
    assert json.loads(json.dumps(document)) == document
    assert document["key"] == ["id"]
    join = document["plan"]["inputs"][0]
    assert join["operator"] == "inner join"
    assert all(a["shared_with"] == ["again"] for a in join["arrangements"])


def test_plans_survive_json() -> None:
    for plan in plans().values():
        assert from_json(json.loads(json.dumps(to_json(plan.logical)))) == plan.logical
