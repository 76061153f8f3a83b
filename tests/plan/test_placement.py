"""Placement: on which shard delta rows are produced, depending on how the store assigns keys to nodes."""

from __future__ import annotations

from dataclasses import replace

from tailrace.plan.nodes import Aggregate, Call, Filter, Scan
from tailrace.plan.physical.zones import begins_zone, placement, view_place
from tailrace.types import Column

ORDERS = Scan("orders", 1, (Column("id", "bigint"), Column("cust", "bigint")), (0,), (1, 0))


def test_a_colocated_scan_is_placed_by_the_primary_key() -> None:
    assert placement(Filter(ORDERS, "_0 > 1")) == (1,)


def test_without_colocation_a_scan_has_no_placement() -> None:
    anywhere = replace(ORDERS, colocated=False)
    assert placement(Filter(anywhere, "_0 > 1")) is None
    assert view_place(anywhere, anywhere.key) == (1,), "a view is still sharded by its key"
    by_id = Aggregate(anywhere, (1,), (Call("count", (), False, "COUNT(*)", "bigint"),))
    assert begins_zone(by_id)
    assert not begins_zone(replace(by_id, input=ORDERS))


def test_colocation_is_not_part_of_the_fingerprint() -> None:
    assert replace(ORDERS, colocated=False).fingerprint == ORDERS.fingerprint
