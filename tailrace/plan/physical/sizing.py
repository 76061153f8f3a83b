"""Decides whether an epoch runs in one task or in several.

    one task   if   operations x weight of the views   <=   SMALL x (1 + EXCHANGE x exchanges of the views)

Several tasks have a fixed cost: a small one for starting them, and about ten times that for each exchange of rows with
other tasks, because Spark plans a shuffle again for each epoch and runs one stage after another. A view of forty joins
has forty exchanges. Several tasks pay off if the work they share outweighs the fixed cost. The unit is the work of a
selection on one row, about 0.3 microseconds.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import NamedTuple

from tailrace.plan.nodes import Aggregate, Key, Node, TemporalFilter, walk
from tailrace.plan.physical.arrangements import Stateful, is_generic
from tailrace.plan.physical.slots import plan_slots
from tailrace.plan.physical.zones import begins_zone, placement

SMALL = 100_000  # rows of a selection for which two tasks are as fast as one
EXCHANGE = 9  # cost of an exchange, in units of SMALL
LINEAR, FLOATS, ROWS = 1, 10, 50  # work per row: pass on or sum; sum doubles exactly; store rows or values


class Cost(NamedTuple):
    """The work of one operation for a view, and how often its rows are shuffled to other tasks."""

    weight: int
    exchanges: int


def cost(root: Node, place: Key) -> Cost:
    """The cost of one operation for a view with this lowered plan, sharded by the columns at `place`.

    A part of the plan that is used twice runs once, so it counts once.
    """
    stateful = {node.fingerprint: node for node in walk(root) if isinstance(node, Stateful)}.values()
    exchanges = sum(not isinstance(node, TemporalFilter) or begins_zone(node) for node in stateful)
    return Cost(sum(map(_weight, stateful)) or LINEAR, exchanges or int(placement(root) != place))


def _weight(node: Stateful) -> int:
    if not isinstance(node, Aggregate) or is_generic(node):
        return ROWS
    slots, _ = plan_slots(node)
    return ROWS if slots.values else FLOATS if slots.floats or slots.spreads else LINEAR


def fits_one_task(costs: Iterable[Cost], operations: int, small: int) -> bool:
    weight = exchanges = 0
    for view_cost in costs:
        weight, exchanges = weight + view_cost.weight, exchanges + view_cost.exchanges
    return operations * weight <= small * (1 + EXCHANGE * exchanges)
