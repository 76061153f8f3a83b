"""Refresh policies: syntax, the cost estimate of `auto`, and which queries may be recomputed."""

from __future__ import annotations

import pytest

from tailrace.errors import SyntaxFault, UnknownName, Unsupported
from tailrace.plan.nodes import Aggregate, Call, Join, Scan
from tailrace.plan.physical.estimate import estimate
from tailrace.plan.physical.physical_plan import PhysicalPlan
from tailrace.plan.sql.recomputable import recomputed_place, relations, require_deterministic
from tailrace.plan.sql.statements import CreateView, parse, parse_query
from tailrace.types import Column

COLUMNS = (Column("id", "int"), Column("g", "int"), Column("x", "double"))
A, B = (Scan(name, number, COLUMNS, (0,), (0, 1, 2)) for number, name in ((1, "a"), (2, "b")))
ROWS = {1: 1000, 2: 100}


def summed(source: Scan | Join, function: str = "sum") -> Aggregate:
    return Aggregate(source, (1,), (Call(function, (0,), False, f"{function}(_0)", "bigint"),))


def test_a_linear_view_costs_its_operations_twice() -> None:
    costs = estimate(PhysicalPlan(A, None, ()), {1: 10}, ROWS, overhead=5)
    assert (costs.deltas, costs.recompute) == (20, 1005)
    assert costs.way.taken == "deltas"


def test_operators_above_a_scan_add_to_its_cost() -> None:
    assert estimate(PhysicalPlan(summed(A), None, ()), {1: 10}, ROWS, 0).deltas == 10 * 2 * (1 + 1)
    assert estimate(PhysicalPlan(summed(A, "min"), None, ()), {1: 10}, ROWS, 0).deltas == 10 * 2 * (1 + 2)
    assert estimate(PhysicalPlan(summed(A, "median"), None, ()), {1: 10}, ROWS, 0).deltas == 10 * 2 * (1 + 8)
    both = summed(Join(A, B, "inner", (1,), (1,), (False,)))
    costs = estimate(PhysicalPlan(both, None, ()), {2: 10}, ROWS, 0)
    assert (costs.deltas, costs.recompute) == (10 * 2 * (1 + 1 + 3), 1100 * 3)


def test_a_delta_that_touches_most_of_a_table_is_recomputed() -> None:
    taken = [estimate(PhysicalPlan(summed(A), None, ()), {1: n}, ROWS, 0).way.taken for n in (100, 499, 501, 1000)]
    assert taken == ["deltas", "deltas", "recomputed", "recomputed"]
    way = estimate(PhysicalPlan(summed(A), None, ()), {1: 1000}, ROWS, 0).way
    assert way.reason == "deltas would cost 4,000, recomputing 2,000"


@pytest.mark.parametrize("policy", ["incremental", "auto", "full"])
def test_the_policy_is_an_option_of_the_statement(policy: str) -> None:
    (made,) = parse(f"CREATE MATERIALIZED VIEW v WITH (refresh = '{policy}') AS WITH q AS (SELECT 1) SELECT * FROM q")
    assert isinstance(made, CreateView)
    assert made.refresh == policy
    assert made.query_sql.startswith("WITH q")


@pytest.mark.parametrize(
    ("option", "error"),
    [
        ("(refresh = 'sometimes')", Unsupported),
        ("(colour = 'red')", Unsupported),
        ("(refresh 'auto')", SyntaxFault),
        ("(refresh = 'auto', refresh = 'full')", SyntaxFault),
        ("refresh = 'auto'", SyntaxFault),
    ],
)
def test_other_options_are_refused_with_their_location(option: str, error: type[Exception]) -> None:
    with pytest.raises(error) as raised:
        parse(f"CREATE MATERIALIZED VIEW v WITH {option} AS SELECT 1 AS x")
    assert raised.value.line == 1  # type: ignore[attr-defined]


@pytest.mark.parametrize(
    "sql",
    [
        "SELECT first_value(x) OVER (PARTITION BY g ORDER BY id) AS f FROM a",
        "SELECT id FROM a ORDER BY id LIMIT 3",
        "SELECT id FROM a WHERE EXISTS (SELECT 1 FROM b WHERE a.id = b.id)",
        "WITH q AS (SELECT * FROM a) SELECT sort_array(collect_list(g)) AS s FROM q, range(3)",
    ],
)
def test_deterministic_queries_may_be_recomputed(sql: str) -> None:
    query = parse_query(sql)
    assert set(relations(query, {"a", "b"})) <= {"a", "b"}
    require_deterministic(query, {"id", "g", "x"})


@pytest.mark.parametrize(
    "sql",
    [
        "SELECT rand() AS r FROM a",
        "SELECT id, current_date FROM a",
        "SELECT user FROM a",
        "SELECT first(x) AS f FROM a",
        "SELECT id FROM a LIMIT 3",
        "SELECT * FROM a TABLESAMPLE (10 PERCENT)",
    ],
)
def test_nondeterministic_queries_are_refused(sql: str) -> None:
    with pytest.raises(Unsupported):
        require_deterministic(parse_query(sql), {"id", "g", "x"})


def test_only_tables_and_views_of_the_store_are_read() -> None:
    with pytest.raises(UnknownName):
        relations(parse_query("SELECT * FROM elsewhere"), {"a"})
    with pytest.raises(Unsupported):
        relations(parse_query("SELECT * FROM parquet.`/etc/x`"), {"a"})


def test_a_recomputed_view_is_never_sharded_by_a_float() -> None:
    assert recomputed_place(COLUMNS, None) == (0, 1)
    assert recomputed_place(COLUMNS, (1, 2)) == (1,)
    assert recomputed_place(COLUMNS, (2,)) == ()
