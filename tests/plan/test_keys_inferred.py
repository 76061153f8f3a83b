"""Keys, placement, delta rules and arrangements, inferred from the plan alone."""

from __future__ import annotations

import pytest
from sketch import Sketch

from tailrace.plan.nodes import Aggregate, Node, walk
from tailrace.plan.physical.arrangements import Arrangement, is_generic, rule
from tailrace.plan.physical.physical_plan import PhysicalPlan
from tailrace.plan.physical.zones import placement, view_place, zones


@pytest.mark.parametrize(
    ("sql", "key"),
    [
        ("select * from orders", ("id",)),
        ("select price, id as number from orders where cust = 7", ("number",)),
        ("select id + 0 as id, price from orders", None),
        ("select cust from orders", None),
        ("select * from lines", ("id", "line")),
        ("select line from lines", None),
        ("select cust, count(*) as n from orders group by cust", ("cust",)),
        ("select count(*) as n from orders group by cust", None),
        ("select cust % 10 as k, day, count(*) as n from orders group by 1, 2", ("k", "day")),
        ("select count(*) as n from orders", ()),
        ("select distinct cust, day from orders", ("cust", "day")),
        ("select o.id, c.name from orders o join customers c on o.cust = c.cust", ("id",)),
        ("select o.id, c.name from orders o left join customers c on o.cust = c.cust", ("id",)),
        ("select o.id, c.cust from orders o right join customers c on o.cust = c.cust", ("id", "cust")),
        ("select o.id, l.line, l.id as lid from orders o join lines l on o.id = l.id", ("lid", "line")),
        ("select x.id, y.id as other from orders x join orders y on x.cust = y.cust", ("id", "other")),
        ("select o.id from orders o semi join customers c on o.cust = c.cust", ("id",)),
        ("select o.id, c.cust from orders o full join customers c on o.cust = c.cust", ("id", "cust")),
        ("select id from orders union all select cust from customers", None),
        ("select id from orders union select cust from customers", ("id",)),
        ("select t.a, u.a as b from t, u", ("a", "b")),
        ("select t.a, u.a as b from t left join u on t.b < u.b", ("a", "b")),
        ("select t.a, u.e from t left join u on t.a = u.a and t.b < u.b", ("a",)),
        ("select t.a, u.a as b from t full join u on t.b < u.b", ("a", "b")),
        ("select t.a from t left anti join u on t.b < u.b", ("a",)),
        ("select a, b from t intersect all select a, b from u", ("a", "b")),
        ("select b from t except select b from u", ("b",)),
        ("select b from t except all select b from u", None),
        ("select k, p, x from nested lateral view posexplode(xs) e as p, x", ("k", "p")),
        ("select k, x from nested lateral view explode(xs) e as x", None),
        ("select k, stack(1, k, k) from nested", ("k",)),
        ("select b, c, grouping_id() as g, count(*) as n from t group by cube(b, c)", ("b", "c", "g")),
        ("select b, count(*) as n from t group by rollup(b)", None),
        ("select 1 as x", ()),
        ("select * from (values (1), (1)) v(x)", None),
        ("select * from range(9)", ("id",)),
        ("select * from t pivot (sum(a) for b in (1, 2))", ("c", "d")),
        ("select * from t unpivot (v for n in (b, d))", ("a", "n")),
        ("select id, rank() over (order by cust) as r from orders", ("id",)),
        ("select id from orders order by price limit 3", ("id",)),
        ("select cust from orders limit 3", None),
        (
            "select cust, n from (select cust, day, row_number() over (partition by cust order by day) as n"
            " from (select cust, day from orders union all select cust, day from orders)) where n <= 2",
            ("cust", "n"),
        ),
    ],
)
def test_key(sql: str, key: tuple[str, ...] | None) -> None:
    node = Sketch().plan(sql)
    assert (None if node.key is None else tuple(node.columns[p].name for p in node.key)) == key


def test_a_view_over_a_view_is_planned_with_it() -> None:
    sketch = Sketch()
    sketch.view("spend", "select cust, sum(price) as total from orders group by cust")
    node = sketch.plan("select c.name, s.total from spend s join customers c on s.cust = c.cust where s.cust > 3")
    assert {n.table for n in walk(node) if hasattr(n, "table")} == {"orders", "customers"}


@pytest.mark.parametrize(
    ("sql", "placed", "view"),
    [
        ("select * from lines", (0, 1), (0, 1)),
        ("select line, id from lines", (1, 0), (1, 0)),
        ("select id, qty from lines", None, (0, 1)),
        ("select line, id from lines where qty > 3", (1, 0), (1, 0)),
        ("select id + 1 as k from lines", None, (0,)),
        ("select day, cust, sum(price) as s from orders group by cust, day", (1, 0), (1, 0)),
        ("select sum(price) as s from orders", (), ()),
        # the join column, by which rows are placed, is part of the key: the view can keep this placement
        ("select l.id, l.line from lines l join orders o on o.id = l.id", (0,), (0,)),
        # the join column is not part of the key: rows with the same key could be in two shards
        ("select o.id, o.cust, c.name from orders o join customers c on o.cust = c.cust", (1,), (0,)),
        ("select c.cust, o.id from orders o right join customers c on o.cust = c.cust", (0,), (0,)),
        ("select o.id, c.cust from orders o full join customers c on o.cust = c.cust", None, (0, 1)),
        ("select a, b from t union all select a, a from u", (0,), (0, 1)),
        ("select a, b from t union all select b, a from u", None, (0, 1)),
        ("select xs, k + 1 as k from nested", None, (1,)),
        ("select id, cust, rank() over (partition by cust order by day) as r from orders", (1,), (0,)),
        ("select id, line, count(*) over (partition by id) as n from lines", (0,), (0,)),
        ("select id, rank() over (order by day) as r from orders", (), (0,)),
        ("select id from orders order by price limit 3", (), (0,)),
    ],
)
def test_placement(sql: str, placed: tuple[int, ...] | None, view: tuple[int, ...]) -> None:
    node = Sketch().plan(sql)
    assert placement(node) == placed
    assert view_place(node, node.key) == view


def _aggregate(sql: str) -> Aggregate:
    return next(n for n in walk(Sketch().plan(sql)) if isinstance(n, Aggregate))


@pytest.mark.parametrize(
    ("call", "expected"),
    [
        ("sum(b)", "additive"),
        ("sum(1)", "additive"),
        ("avg(d)", "additive"),
        ("mean(b)", "additive"),
        ("count(*)", "additive"),
        ("count(c)", "additive"),
        ("count(b, c)", "additive"),
        ("count_if(b > 1)", "additive"),
        ("sum(b) filter (where c = 'x')", "additive"),
        ("stddev(d)", "additive"),
        ("var_pop(b)", "additive"),
        ("var_samp(cast(b as decimal(38, 7)))", "additive"),
        ("variance(distinct b)", "generic"),
        ("min(c)", "extreme"),
        ("max(d)", "extreme"),
        ("count(distinct c)", "distinct"),
        ("count(distinct b, c)", "generic"),
        ("sum(distinct b)", "generic"),
        ("sum(c)", "generic"),
        ("percentile(b, 0.5)", "generic"),
        ("max_by(c, a)", "generic"),
        ("sum(cast(b as decimal(28, 2)))", "additive"),
        ("sum(cast(b as decimal(38, 6)))", "additive"),
        ("sum(cast(b as decimal(29, 0)))", "generic"),
        ("sum(cast(b as decimal(38, 7)))", "generic"),
        ("avg(cast(b as decimal(18, 2)))", "additive"),
        ("avg(cast(b as decimal(19, 2)))", "generic"),
    ],
)
def test_rule(call: str, expected: str) -> None:
    node = _aggregate(f"select d as k, {call} as v from t group by d")
    assert rule(node.calls[0], node.input.columns) == expected
    assert is_generic(node) == (expected == "generic")


def test_one_generic_call_makes_the_aggregate_generic() -> None:
    assert is_generic(_aggregate("select sum(b) as s, median(b) as v from t"))


def _kinds(sql: str) -> list[list[str]]:
    return [[a.kind for a in kept] for _, kept in PhysicalPlan(Sketch().plan(sql), None, ()).arrangements]


def test_arrangements_of_each_operator() -> None:
    assert _kinds("select a from t where b > 1") == []
    assert _kinds("select t.a, u.e from t join u on t.b = u.a") == [["rows", "rows"]]
    assert _kinds("select b, sum(a) as s from t group by b") == [["accumulators"]]
    assert _kinds("select distinct b from t") == [["accumulators"]]
    assert _kinds("select b, min(a) as l, max(a) as h, count(distinct c) as k from t group by b") == [
        ["accumulators", "values", "values"]
    ]
    assert _kinds("select b, stddev(a) as s from t group by b") == [["accumulators"]]
    assert _kinds("select b, median(a) as s from t group by b") == [["rows", "outputs"]]
    assert _kinds("select b from t intersect all select b from u") == [["accumulators"]]
    assert _kinds("select b, sum(a) as s from t group by cube(b, c)") == [["accumulators"]]
    assert _kinds("select b, rank() over (partition by b order by d) as r from t") == [["rows", "outputs"]]
    assert _kinds("select b from t order by d limit 3") == [["ordered"]]


def _held(node: Node, kind: str) -> set[Arrangement]:
    return {a for _, kept in PhysicalPlan(node, None, ()).arrangements for a in kept if a.kind == kind}


def test_views_share_what_they_both_need() -> None:
    sketch = Sketch()
    one = sketch.plan("select t.a, t.b, u.e from t join u on t.b = u.a")
    two = sketch.plan("select x.a as k, x.b, y.e from u y join t x on y.a = x.b")
    shared = _held(one, "rows") & _held(two, "rows")
    assert len(shared) == 2
    assert set(PhysicalPlan(one, None, ()).fingerprints) == set(PhysicalPlan(two, None, ()).fingerprints)
    low = sketch.plan("select b, min(a) as l from t group by b")
    high = sketch.plan("select b, max(a) as h from t group by b")
    assert _held(low, "values") == _held(high, "values")
    assert _held(low, "accumulators") != _held(high, "accumulators")
    first = sketch.plan("select a, c from t order by b desc limit 1")
    some = sketch.plan("select c from (select a, c from t order by b desc limit 10 offset 3)")
    assert _held(first, "ordered") == _held(some, "ordered")
    ranks = sketch.plan("select a, b, rank() over (partition by b order by a) as r from t")
    middle = sketch.plan("select b, median(a) as m from t group by b")
    assert _held(ranks, "rows") == _held(middle, "rows")


def test_zones_begin_where_rows_must_move() -> None:
    node = Sketch().plan(
        "select c.name, sum(o.price) as s from orders o join customers c on o.cust = c.cust group by c.name"
    )
    numbers = [zones(node)[n.fingerprint].number for n in walk(node)]
    assert numbers == [1, 2, 3, 3, 4, 4]
    by_key = Sketch().plan("select cust, count(name) as n from customers group by cust")
    assert {zone.number for zone in zones(by_key).values()} == {1}
