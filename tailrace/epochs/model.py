"""Epochs as plain data: what is maintained, what one is to do, and what it did."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from tailrace.catalog.construction import Load
from tailrace.plan.policy import Way
from tailrace.store.base import Cut
from tailrace.store.documents import Count, Document, Kind, Number


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


class Intent(Document, frozen=True):
    """An epoch that has begun: its end, how views with a choice are refreshed, and the chunk that a build loads.

    `again` are the states of views that are recomputed whatever their policy, to repair them. The intent is durable:
    an epoch that is tried again does the same. `term` is that of the epoch lock under which it runs.
    """

    epoch: Count
    end: Cut
    ways: dict[str, Way]
    load: Load | None
    again: tuple[Number, ...] = ()
    term: Count = 0

    def fits(self, nodes: int) -> bool:
        bounds = self.load.coming.values() if self.load else ()
        return all(len(part) == nodes for part in (self.end.offsets, *bounds))

    def recomputes(self, view: str) -> bool:
        """Whether this epoch recomputes a view by choice."""
        return view in self.ways and self.ways[view].taken == "recomputed"


INTENT: Kind[Intent] = Kind("intent", Intent, expendable=True)
