"""The physical plan of a view: what its epochs run. It is part of the view's definition."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

from tailrace.plan.facts import may_raise
from tailrace.plan.nodes import Key, Node, tables
from tailrace.plan.physical.arrangements import Arrangement, arrangements
from tailrace.plan.physical.lower import lower_plan
from tailrace.plan.physical.sizing import Cost, cost
from tailrace.plan.physical.zones import placement
from tailrace.types import Column


@dataclass(frozen=True)
class PhysicalPlan:
    """A view's logical plan and its lowered form (`root`).

    The view is stored by `key`, which may have fewer columns than the plan's key (None: it is a bag), and sharded by
    the columns at `place`.
    """

    logical: Node
    key: Key | None
    place: Key

    @cached_property
    def root(self) -> Node:
        """The plan, lowered to operators that have delta rules."""
        return lower_plan(self.logical)

    @property
    def columns(self) -> tuple[Column, ...]:
        return self.logical.columns

    @cached_property
    def tables(self) -> frozenset[int]:
        """The ids of the tables that the plan reads."""
        return tables(self.root)

    @cached_property
    def arrangements(self) -> list[tuple[Node, list[Arrangement]]]:
        """The stateful operators, inputs first, each once, with their states."""
        return arrangements(self.root)

    @cached_property
    def fingerprints(self) -> list[str]:
        """The fingerprints of all states that the plan needs, each once."""
        return list(dict.fromkeys(a.fingerprint for _, kept in self.arrangements for a in kept))

    @cached_property
    def temporal(self) -> list[str]:
        """The fingerprints of the states that hold borders in time."""
        return list(dict.fromkeys(a.fingerprint for _, kept in self.arrangements for a in kept if a.kind == "borders"))

    @cached_property
    def cost(self) -> Cost:
        """What one operation on a table costs the view."""
        return cost(self.root, self.place)

    @cached_property
    def is_placed(self) -> bool:
        """Whether delta rows are produced in the shards where they are stored, so that no shuffle is needed."""
        return placement(self.root) == self.place

    @cached_property
    def is_chunked(self) -> bool:
        """Whether the view may be built chunk by chunk.

        Not with operators that recompute whole groups: each chunk would recompute most groups, and the intermediate
        answers may differ in the last bits from those in a shared state. Not with expressions that raise errors: an
        error over a part of the tables (a scalar subquery with NOT EXISTS) need not be one over all rows.
        """
        return all(a.kind != "outputs" for _, kept in self.arrangements for a in kept) and not may_raise(self.root)


@dataclass(frozen=True)
class ViewSink:
    """A view as seen by epochs: the state that holds its rows, and its physical plan."""

    state: int
    plan: PhysicalPlan
