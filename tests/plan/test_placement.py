"""Placement: where the rows of a delta arise, by how the store places keys."""

from __future__ import annotations

from dataclasses import replace

from tailrace.plan.nodes import Aggregate, Call, Filter, Scan
from tailrace.plan.physical.zones import begins_zone, placement, view_place
from tailrace.types import Column

ORDERS = Scan("orders", 1, (Column("id", "bigint"), Column("cust", "bigint")), (0,), (1, 0))


def test_changes_are_logged_where_the_shard_of_the_primary_key_is() -> None:
    assert placement(Filter(ORDERS, "_0 > 1")) == (1,)


def test_a_store_that_does_not_hash_keys_logs_changes_anywhere() -> None:
    anywhere = replace(ORDERS, colocated=False)
    assert placement(Filter(anywhere, "_0 > 1")) is None
    assert view_place(anywhere) == (1,), "a view is still sharded by its key"
    by_id = Aggregate(anywhere, (1,), (Call("count", (), False, "COUNT(*)", "bigint"),))
    assert begins_zone(by_id)
    assert not begins_zone(replace(by_id, input=ORDERS))


def test_the_placement_is_not_part_of_what_a_relation_is() -> None:
    assert replace(ORDERS, colocated=False).fingerprint == ORDERS.fingerprint
