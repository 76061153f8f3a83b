"""Epochs as plain data: the stored intent of an epoch, and the result of a refresh."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from tailrace.catalog.construction import Load
from tailrace.plan.policy import Way
from tailrace.store.base import Cut
from tailrace.store.documents import Count, Document, Kind, Number

LARGEST = 5_000_000  # maximum number of operations per epoch


@dataclass(frozen=True)
class Epoch:
    """What a refresh did. If there were no changes, `operations` is 0 and `number` is that of the last epoch.

    `refreshed` says how each view with policy `auto` or `full` was refreshed and why, if its tables changed.
    `next_due` is when the next row will enter or leave a view because time passes (microseconds since 1970).
    """

    number: int
    operations: int
    seconds: float
    view_rows: int
    cut: Cut
    views: int
    refreshed: Mapping[str, Way] = field(default_factory=dict)
    next_due: int | None = None

    @property
    def rate(self) -> float:
        """Operations per second."""
        return self.operations / self.seconds if self.seconds else 0.0


class Intent(Document, frozen=True):
    """An epoch that has begun: its end, how each recomputable view is refreshed, and the chunk that a build loads.

    `again` are the states of views to repair: they are recomputed whatever their policy. The intent is durable, so
    a retried epoch makes the same choices. `term` is the term of the epoch lock under which the epoch runs. `time` is
    the time of the epoch, which `now()` is in views (microseconds since 1970).
    """

    epoch: Count
    end: Cut
    ways: dict[str, Way]
    load: Load | None
    again: tuple[Number, ...] = ()
    term: Count = 0
    time: Count = 0

    def fits(self, nodes: int) -> bool:
        bounds = self.load.coming.values() if self.load else ()
        return all(len(part) == nodes for part in (self.end.offsets, *bounds))

    def recomputes(self, view: str) -> bool:
        """Whether this epoch has chosen to recompute a view."""
        return view in self.ways and self.ways[view].taken == "recomputed"


INTENT: Kind[Intent] = Kind("intent", Intent, expendable=True)
