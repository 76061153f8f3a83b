"""The key of a view: the fewest columns that its functional dependencies allow."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from sketch import Sketch

import tailrace as tr
from tailrace.catalog.definition import ViewDef, view_document, view_of
from tailrace.database.inside import inside
from tailrace.plan.dependencies import smallest_key
from tailrace.plan.nodes import tables

KEYS: dict[str, tuple[str, ...] | None] = {
    # tables and their keys
    "select * from lines": ("id", "line"),
    "select line from lines": None,
    "select qty, id from lines": None,
    # groups
    "select id, cust, day, count(*) as n from orders group by id, cust, day": ("id",),
    "select cust, day, id from orders group by cust, id, day": ("id",),
    "select cust, day, count(*) as n from orders group by cust, day": ("cust", "day"),
    "select cust, cust % 10 as k, count(*) as n from orders group by cust, cust % 10": ("cust",),
    "select distinct id, cust, price from orders": ("id",),
    "select distinct cust, day from orders": ("cust", "day"),
    "select count(*) as n from orders": (),
    # constants, of which one stays
    "select cust, day, count(*) as n from orders where cust = 7 group by cust, day": ("day",),
    "select day, cust, count(*) as n from orders where 7 = cust group by day, cust": ("day",),
    "select id, price from orders where id = 5": ("id",),
    "select cust, count(*) as n from orders where cust = 7 or cust = 8 group by cust": ("cust",),
    "select cust, 'x' as kind, count(*) as n from orders group by cust, 'x'": ("cust",),
    # equalities
    "select id, line, count(*) as n from lines where id = line group by id, line": ("id",),
    "select l.id, l.line, o.id as oid from lines l join orders o on l.id = o.id group by l.id, l.line, o.id": (
        "id",
        "line",
    ),
    "select o.id as oid, l.line from lines l join orders o on l.id = o.id": ("oid", "line"),
    # joins with unique keys
    "select o.id, c.name, c.cust, sum(price) as s from orders o join customers c on o.cust = c.cust"
    " group by o.id, c.name, c.cust": ("id",),
    "select c.name, c.cust, sum(price) as s from orders o join customers c on o.cust = c.cust"
    " group by c.name, c.cust": ("cust",),
    "select c.name, o.day, o.cust from orders o join customers c on o.cust = c.cust group by 1, 2, 3": ("day", "cust"),
    # outer joins: no match is one more value
    "select o.id, c.name from orders o left join customers c on o.cust = c.cust group by o.id, c.name": ("id",),
    "select o.cust, c.name from orders o left join customers c on o.cust = c.cust group by o.cust, c.name": ("cust",),
    "select c.cust, o.id from orders o right join customers c on o.cust = c.cust": ("id", "cust"),
    "select c.k, o.id, count(*) as n from orders o left join (select 5 as k, cust from customers) c"
    " on o.cust = c.cust and o.price > 3 group by c.k, o.id": ("id",),
    "select c.k, o.day, count(*) as n from orders o left join (select 5 as k, cust from customers) c"
    " on o.cust = c.cust group by c.k, o.day": ("k", "day"),
    "select o.id, c.cust, count(*) as n from orders o full join customers c on o.cust = c.cust group by o.id, c.cust": (
        "id",
        "cust",
    ),
    "select t.a, u.a as b from t left join u on t.b = u.b": ("a", "b"),
    "select t.a, t.b from t semi join u on t.b = u.b group by t.a, t.b": ("a",),
    # unions have no dependencies, windows and first rows keep those of their input
    "select id, cust from orders union select cust, id from orders": ("id", "cust"),
    "select id, cust, count(*) as n from (select id, cust from orders union all select id, cust from orders)"
    " group by id, cust": ("id", "cust"),
    "select id, cust, rank() over (order by day) as r from orders group by id, cust, day": ("id",),
    "select cust, n, price from (select cust, price, row_number() over (partition by cust order by day) as n"
    " from orders) where n <= 2": ("cust", "n"),
    "select cust, price from (select cust, price, row_number() over (partition by cust order by day) as n"
    " from orders) where n = 1": ("cust",),
    "select k, p, x from nested lateral view posexplode(xs) e as p, x": ("k", "p"),
    # text of a number that has two zeros
    "select d, cast(d as string) as s, count(*) as n from t group by d, cast(d as string)": ("d", "s"),
}


def view_key(sql: str) -> tuple[str, ...] | None:
    sketch = Sketch()
    node = sketch.plan(sql)
    key = smallest_key(node, sketch.types)
    return None if key is None else tuple(node.columns[p].name for p in key)


@pytest.mark.parametrize(("sql", "key"), KEYS.items())
def test_key_of_a_view(sql: str, key: tuple[str, ...] | None) -> None:
    assert view_key(sql) == key


def test_a_stored_view_keeps_its_key() -> None:
    node = Sketch().plan("select id, cust, day, count(*) as n from orders group by id, cust, day")
    stored = ViewDef("v", "...", node, node.columns, (0, 1, 2), (0, 1, 2), ("orders",), tables(node), "incremental")
    loaded = view_of(view_document(stored))
    assert loaded.plan is not None
    assert loaded.key == loaded.plan.key == loaded.plan.place == (0, 1, 2)


@pytest.mark.parametrize("spread", [False, True])
def test_a_view_is_read_and_maintained_by_its_small_key(tmp_path: Path, spark: Any, spread: bool) -> None:
    with tr.open(tmp_path / "s", create=True, spark=spark, map_size=1 << 30, durable=False) as db:
        db.sql("CREATE TABLE orders (id INT PRIMARY KEY, cust INT, price INT)")
        db.sql("CREATE TABLE customers (cust INT PRIMARY KEY, name STRING)")
        if spread:
            inside(db).epochs.jobs.small = -1
        db.table("customers").put_many([{"cust": i, "name": f"c{i}"} for i in range(4)])
        db.table("orders").put_many([{"id": i, "cust": i % 4, "price": i} for i in range(20)])
        db.sql(
            "CREATE MATERIALIZED VIEW v AS SELECT o.cust, name, id, SUM(price) AS s"
            " FROM orders o JOIN customers c ON o.cust = c.cust GROUP BY o.cust, name, id"
        )
        view = db.view("v")
        assert view.key == ["id"]
        assert view.get(5) == {"cust": 1, "name": "c1", "id": 5, "s": 5}
        db.table("orders").put_many([{"id": i, "cust": 3, "price": 100} for i in (5, 6)])  # other groups, the same keys
        db.table("orders").delete(7)
        db.table("customers").put({"cust": 2, "name": "new"})
        db.refresh()
        assert view.get(5) == {"cust": 3, "name": "c3", "id": 5, "s": 100}
        assert view.get(7) is None
        assert view.get(2) == {"cust": 2, "name": "new", "id": 2, "s": 2}
        assert db.verify("v").ok
