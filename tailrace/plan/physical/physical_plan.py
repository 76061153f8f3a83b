"""The physical plan of a view: what its epochs run. A view carries it from its definition on."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

from tailrace.plan.nodes import Key, Node, tables
from tailrace.plan.physical.arrangements import Arrangement, arrangements
from tailrace.plan.physical.lower import lower_plan
from tailrace.plan.physical.sizing import Cost, cost
from tailrace.plan.physical.zones import placement
from tailrace.types import Column


@dataclass(frozen=True)
class PhysicalPlan:
    """A view's plan (`logical`), and what runs for it (`root`), sharded by the columns at `place`."""

    logical: Node
    place: Key

    @cached_property
    def root(self) -> Node:
        """The plan, lowered to the operators that delta rules maintain."""
        return lower_plan(self.logical)

    @property
    def columns(self) -> tuple[Column, ...]:
        return self.logical.columns

    @property
    def key(self) -> Key | None:
        """The key of the view. Lowering may lose sight of it."""
        return self.logical.key

    @cached_property
    def tables(self) -> frozenset[int]:
        """The ids of the tables that the plan reads."""
        return tables(self.root)

    @cached_property
    def arrangements(self) -> list[tuple[Node, list[Arrangement]]]:
        """The stateful operators, inputs first, each once, with the states that each keeps."""
        return arrangements(self.root)

    @cached_property
    def fingerprints(self) -> list[str]:
        """The fingerprints of all states that the plan needs, each once."""
        return list(dict.fromkeys(a.fingerprint for _, kept in self.arrangements for a in kept))

    @cached_property
    def cost(self) -> Cost:
        """What one operation costs the view."""
        return cost(self.root, self.place)

    @cached_property
    def is_placed(self) -> bool:
        """Whether the rows of the view arise in the shards where they are stored."""
        return placement(self.root) == self.place

    @cached_property
    def is_chunked(self) -> bool:
        """Whether the view may be built chunk by chunk.

        Not with operators that recompute whole groups: each chunk would do so for most groups, and their answers in
        between may differ in the last bits from what a shared state holds.
        """
        return all(a.kind != "outputs" for _, kept in self.arrangements for a in kept)


@dataclass(frozen=True)
class ViewSink:
    """A view as epochs see it: the state of its rows, and its physical plan."""

    state: int
    plan: PhysicalPlan
