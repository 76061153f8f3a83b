"""Whether an epoch's work is divided among tasks.

    one task   if   operations x weight of the views   <=   SMALL x (1 + EXCHANGE x views with an exchange)

Dividing work costs a fixed time: a little for more tasks, ten times as much for each view whose rows must go on to
other tasks, because Spark plans that anew and runs one stage after another. It pays where what every operation costs,
divided, outweighs it. The unit is what a selection does with one row, about 0.3 microseconds.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import NamedTuple

from tailrace.plan.nodes import Aggregate, Join, Key, Node, TopK, Window, walk
from tailrace.plan.physical.arrangements import is_generic
from tailrace.plan.physical.slots import plan_slots
from tailrace.plan.physical.zones import placement

SMALL = 100_000  # rows of a selection, at which two tasks are as fast as one
EXCHANGE = 9  # times as much as that for an exchange
LINEAR, FLOATS, ROWS = 1, 10, 50  # weights of summing or passing on a row, of exact sums of floats, of keeping rows


class Cost(NamedTuple):
    """What one operation costs a view, and whether its rows have to go to other tasks."""

    weight: int
    exchanges: bool


def cost(root: Node, place: Key) -> Cost:
    """What one operation costs a view with this lowered plan, sharded by the columns at `place`."""
    stateful = [_weight(node) for node in walk(root) if isinstance(node, Aggregate | Join | TopK | Window)]
    return Cost(sum(stateful) or LINEAR, bool(stateful) or placement(root) != place)


def _weight(node: Aggregate | Join | TopK | Window) -> int:
    if not isinstance(node, Aggregate) or is_generic(node):
        return ROWS
    slots, _ = plan_slots(node)
    return ROWS if slots.values else FLOATS if slots.floats or slots.spreads else LINEAR


def fits_one_task(costs: Iterable[Cost], operations: int, small: int) -> bool:
    weight = exchanges = 0
    for one in costs:
        weight, exchanges = weight + one.weight, exchanges + one.exchanges
    return operations * weight <= small * (1 + EXCHANGE * exchanges)
