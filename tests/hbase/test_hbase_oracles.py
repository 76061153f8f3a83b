"""The operator oracles on HBase: views of every rule and arrangement equal recomputation after every epoch.

The views, the random writes and the comparison are those of `tests/rules/test_oracle_*.py`. Few databases hold many
views each, because it is the database that takes time here.
"""

from __future__ import annotations

import random
from collections.abc import Iterator
from typing import Any

import pytest
import test_oracle_clauses as clauses
import test_oracle_lateral as lateral
import test_oracle_nested as nested
import test_oracle_operators as operators
import test_oracle_subqueries as subqueries
import test_oracle_time as time_filters
import test_oracle_time_windows as time_windows
import test_oracle_topk as topk
import test_oracle_windows as windows
from oracle import compare_all_along, verify_all_along, wide_tables
from pyspark.sql import SparkSession

import tailrace as tr
from tailrace.plan.explain import COSTS
from tailrace_hbase.local_cluster import LocalCluster
from tailrace_hbase.scratch import scratch_database

pytestmark = pytest.mark.hbase

GROUPS: dict[str, list[str]] = {
    "joins": [
        *operators.FAMILIES["inner"][4:],
        *operators.FAMILIES["outer"][1:],
        *clauses.FAMILIES["joins"][:4:2],
        *lateral.FAMILIES["joins"][1][1:2],
        *lateral.FAMILIES["first rows"][1][:1],
    ],
    "aggregates": [
        *operators.FAMILIES["aggregates"][:8],
        *operators.FAMILIES["global"][::2],
        *operators.FAMILIES["distinct"][1:3],
        *clauses.FAMILIES["grouping-sets"][:1],
        *clauses.FAMILIES["aggregates"][:1],
    ],
    "subqueries": [
        *subqueries.FAMILIES["scalar"][1:6:2],
        *subqueries.FAMILIES["exists"][2:6:3],
        *subqueries.FAMILIES["in"][1:5:3],
        *subqueries.FAMILIES["by-row"][:1],
        *operators.FAMILIES["mixed"][:3],
        *clauses.FAMILIES["sets"][1:4:2],
    ],
    "orders": [
        *topk.VIEWS[:10:2],
        *windows.FAMILIES["ranking"][:2],
        *windows.FAMILIES["frames"][1:2],
        *windows.FAMILIES["values"][:1],
        *time_windows.VIEWS[1:2],
        *time_windows.SESSIONS[:1],
        *operators.FAMILIES["linear"][::2],
        *clauses.FAMILIES["generated"][:2],
        *clauses.FAMILIES["constants"][:2],
        *clauses.FAMILIES["pivot"][:1],
    ],
}
SPREAD = {"joins"}  # these have a task for every shard


@pytest.fixture
def db(cluster: LocalCluster, spark: SparkSession) -> Iterator[tr.Database]:
    with scratch_database(cluster, spark) as database:
        yield database


def rules_of(node: dict[str, Any]) -> set[str]:
    return set(node["rules"]).union(*(rules_of(child) for child in node["inputs"]))


def rules(db: tr.Database) -> set[str]:
    """The delta rules of all views."""
    return set().union(*(rules_of(db.explain(name, json=True)["plan"]) for name in db.views()))


NEEDED = {
    "joins": {"bilinear", "all pairs", "first and last match", "first entries"},
    "aggregates": {"additive", "extreme", "distinct", "affected groups"},
    "subqueries": {"bilinear", "first and last match", "extreme", "first entries"},
    "orders": {"linear", "constant", "first entries", "affected partitions"},
}


@pytest.mark.parametrize("group", list(GROUPS))
def test_views_equal_recomputation(db: tr.Database, group: str) -> None:
    wide_tables(db, "ace")
    compare_all_along(db, GROUPS[group], random.Random(group), "aace", spread=group in SPREAD)
    assert rules(db) >= NEEDED[group]


def test_every_rule_is_in_one_of_these_tests() -> None:
    assert set().union(*NEEDED.values()) | {"log", "crossed borders"} == set(COSTS)


def test_ties_are_broken_the_same_way_in_every_epoch(db: tr.Database) -> None:
    wide_tables(db, "ac")
    verify_all_along(db, [*topk.TIES[2:], *windows.TIES[:2]], random.Random("ties"), "aac")


def test_nested_types_equal_recomputation(db: tr.Database) -> None:
    nested.nested_tables(db)
    nested.follow_nested(db, [*nested.LINEAR[:4], *nested.STATEFUL[::2]], spread=False, epochs=1)


def test_time_filters_equal_recomputation(db: tr.Database) -> None:
    wide_tables(db, "ab")
    views = [*time_filters.NESTED[:12:2], *time_filters.BORDERS[:4]]
    time_filters.follow(db, views, random.Random(8), "ab", spread=True, epochs=2)
    assert "crossed borders" in rules(db)
