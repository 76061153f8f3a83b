"""Estimates whether applying deltas or recomputing a view is cheaper (policy `auto`).

    deltas     = Σ over the plan's scans   2 · operations(table) · (1 + Σ DELTA(operator) above the scan)
    recompute  = Σ over the plan's scans       rows(table)       · (1 + Σ 1               above the scan)  +  overhead

The unit is one row processed in bulk. An operation is two rows (before and after). A stateful operator costs a delta
row its lookups, and a recomputed row one write. The estimate is rough on purpose: the two costs are nearly always far
apart, and if they are close, either choice is fine.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from tailrace.plan.nodes import Node, Scan
from tailrace.plan.physical.physical_plan import PhysicalPlan
from tailrace.plan.policy import Way

# Cost of a delta row at an operator, by the kind of state that it looks up.
DELTA = {"accumulators": 1, "values": 2, "rows": 3, "ordered": 3, "borders": 3, "outputs": 8}
# Fixed cost of a recomputation, in rows: it is a Spark job of its own.
OVERHEAD = 20_000


@dataclass(frozen=True)
class Estimate:
    """Costs, in rows processed."""

    deltas: int
    recompute: int

    @property
    def way(self) -> Way:
        if self.deltas > self.recompute:
            return Way("recomputed", f"deltas would cost {self.deltas:,}, recomputing {self.recompute:,}")
        return Way("deltas", f"deltas cost {self.deltas:,}, recomputing would cost {self.recompute:,}")


def estimate(
    plan: PhysicalPlan, operations: Mapping[int, int], rows: Mapping[int, int], overhead: int = OVERHEAD
) -> Estimate:
    """The costs of an epoch for a view, given the operations and the rows of each table, by table id."""
    kinds = {node.fingerprint: [a.kind for a in kept] for node, kept in plan.arrangements}

    def cost(node: Node, delta: int, bulk: int) -> tuple[int, int]:
        if isinstance(node, Scan):
            return 2 * operations.get(node.table_id, 0) * delta, rows.get(node.table_id, 0) * bulk
        kept = kinds.get(node.fingerprint, [])
        delta += max((DELTA.get(kind, DELTA["outputs"]) for kind in kept), default=0)
        parts = [cost(child, delta, bulk + bool(kept)) for child in node.inputs]
        return sum(p[0] for p in parts), sum(p[1] for p in parts)

    deltas, recompute = cost(plan.logical, 1, 1)
    return Estimate(deltas, recompute + overhead)
