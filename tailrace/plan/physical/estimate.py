"""How a view is brought up to date: by deltas, by recomputing it, or by whichever is cheaper.

    deltas     = Σ over the plan's scans   2 · operations(table) · (1 + Σ DELTA(operator) above the scan)
    recompute  = Σ over the plan's scans       rows(table)       · (1 + Σ 1               above the scan)  +  overhead

The unit is a row handled in bulk. An operation is two rows (before and after); a stateful operator costs a
row of a delta what it must look up, and a row of a recomputation one write. Rough on purpose: the two
are far apart nearly always, and near each other it does not matter which is taken.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from tailrace.plan.nodes import Node, Scan
from tailrace.plan.physical.physical_plan import PhysicalPlan
from tailrace.plan.policy import Way

# What a row of a delta costs at an operator, by the kind of state it must look into.
DELTA = {"accumulators": 1, "values": 2, "rows": 3, "ordered": 3, "outputs": 8}
# Rows that could be handled in the time a recomputation takes before its first row: a job of its own.
OVERHEAD = 20_000


@dataclass(frozen=True)
class Estimate:
    """Costs in rows handled."""

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
    """What an epoch with so many operations on each table costs a view whose tables have so many rows."""
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
