"""Epochs as plain data: what is maintained, what one is to do, and what it did."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, NamedTuple

from tailrace.catalog.construction import Load
from tailrace.plan.policy import Way
from tailrace.store.base import Cut


@dataclass(frozen=True)
class Epoch:
    """What a refresh did. `operations` is 0 and `number` the last one's when there was nothing to do.

    `refreshed` says of each view that may be recomputed, and had something to do, what was done and why.
    """

    number: int
    operations: int
    seconds: float
    view_rows: int
    cut: Cut
    views: int
    refreshed: Mapping[str, Way] = field(default_factory=dict)

    @property
    def rate(self) -> float:
        """Operations per second."""
        return self.operations / self.seconds if self.seconds else 0.0


class Intent(NamedTuple):
    """An epoch that is begun: its end, how views with a choice are refreshed, and the chunk that a build takes in.

    `again` are the states of views that are computed anew, whatever their policy: to mend them. Written down, it stays
    so however often the epoch is tried.
    """

    epoch: int
    end: Cut
    ways: dict[str, Way]
    load: Load | None
    again: frozenset[int] = frozenset()

    def recomputes(self, view: str) -> bool:
        """Whether it was chosen for a view to be recomputed."""
        return view in self.ways and self.ways[view].taken == "recomputed"

    def to_json(self) -> Any:
        ways = {name: [way.taken, way.reason] for name, way in self.ways.items()}
        load = None if self.load is None else self.load.to_json()
        return {
            "epoch": self.epoch,
            "end": [self.end.transaction, self.end.offsets],
            "ways": ways,
            "load": load,
            "again": sorted(self.again),
        }

    @classmethod
    def from_json(cls, found: Any) -> Intent:
        ways = {name: Way(*way) for name, way in found["ways"].items()}
        load = Load.from_json(found["load"]) if found["load"] else None
        return cls(found["epoch"], Cut.from_json(found["end"]), ways, load, frozenset(found.get("again", ())))
