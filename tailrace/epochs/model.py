"""Epochs as plain data: the stored intent of an epoch, and the result of a refresh."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace

from tailrace.catalog.construction import Load
from tailrace.catalog.failed import FailedView
from tailrace.plan.policy import Way
from tailrace.store.base import Cut
from tailrace.store.documents import Count, Document, Kind, Number

LARGEST = 5_000_000  # maximum number of operations per epoch
MAX_ATTEMPTS = 3  # processes that may die in one epoch before views are suspected of killing them


@dataclass(frozen=True)
class Epoch:
    """What a refresh did. If there were no changes, `operations` is 0 and `number` is that of the last epoch.

    `refreshed` says how each view with policy `auto` or `full` was refreshed and why, if its tables changed. `failed`
    are the views that failed in it, or that it tried in vain to catch up; `recovered` are those that caught up.
    `next_due` is when the next row will enter or leave a view because time passes (microseconds since 1970).
    """

    number: int
    operations: int
    seconds: float
    view_rows: int
    cut: Cut
    views: int
    refreshed: Mapping[str, Way] = field(default_factory=dict)
    failed: Mapping[str, FailedView] = field(default_factory=dict)
    recovered: tuple[str, ...] = ()
    next_due: int | None = None

    def then(self, later: Epoch) -> Epoch:
        """This refresh and a later one together."""
        failed = {n: f for n, f in self.failed.items() if n not in later.recovered}
        return replace(
            later,
            operations=self.operations + later.operations,
            seconds=self.seconds + later.seconds,
            view_rows=self.view_rows + later.view_rows,
            refreshed={**self.refreshed, **later.refreshed},
            failed={**failed, **later.failed},
            recovered=tuple(sorted({*self.recovered, *later.recovered} - later.failed.keys())),
        )

    @property
    def rate(self) -> float:
        """Operations per second."""
        return self.operations / self.seconds if self.seconds else 0.0


class CatchUp(Document, frozen=True):
    """How an epoch tries to catch up a failed view: from its last good epoch, or (None) by recomputing it.

    `cut` and `time` are those of the last good epoch.
    """

    epoch: Count | None
    cut: Cut
    time: Count = 0


class Intent(Document, frozen=True):
    """An epoch that has begun: its end, how each recomputable view is refreshed, and the chunk that a build loads.

    `again` are the states of views to repair: they are recomputed whatever their policy. The intent is durable, so
    a retried epoch makes the same choices. `term` is the term of the epoch lock under which the epoch runs. `time` is
    the time of the epoch, which `now()` is in views (microseconds since 1970).

    `catch_ups` are the failed views that the epoch tries again. `failed` are those that failed in it, which it leaves
    out from then on. `attempts` counts the processes that died in this epoch. From `MAX_ATTEMPTS` on, views are run in
    groups, recorded in `suspects`: if the process dies again, the first group is to blame.
    """

    epoch: Count
    end: Cut
    ways: dict[str, Way]
    load: Load | None
    again: tuple[Number, ...] = ()
    term: Count = 0
    catch_ups: dict[str, CatchUp] = {}
    failed: dict[str, FailedView] = {}
    attempts: Count = 0
    suspects: tuple[tuple[Number, ...], ...] = ()
    time: Count = 0

    def fits(self, nodes: int) -> bool:
        bounds = self.load.coming.values() if self.load else ()
        starts = [c.cut.offsets for c in self.catch_ups.values()]
        whole = all(len(part) == nodes for part in (self.end.offsets, *bounds, *starts))
        return whole and all(failed.fits(nodes) for failed in self.failed.values())

    def recomputes(self, view: str) -> bool:
        """Whether this epoch has chosen to recompute a view."""
        return view in self.ways and self.ways[view].taken == "recomputed"


INTENT: Kind[Intent] = Kind("intent", Intent, expendable=True)
