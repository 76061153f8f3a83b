"""What is maintained: the tables, views and states of a catalog, as epochs see them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from tailrace.catalog.catalog import Catalog, ViewBuild
from tailrace.catalog.construction import PlannedBuild
from tailrace.catalog.definition import ViewDef
from tailrace.codec.schema import TableDef
from tailrace.epochs.recompute import RecomputableView
from tailrace.plan.physical.physical_plan import ViewSink


@dataclass(frozen=True)
class Maintained:
    """All that is maintained: tables by id, views, and the number of every state by its fingerprint.

    `views` go by deltas always; for those in `recomputable` each epoch decides; `builds` are on their way.
    """

    tables: Mapping[int, TableDef]
    views: Sequence[ViewSink]
    states: Mapping[str, int]
    recomputable: Sequence[RecomputableView] = ()
    builds: Sequence[PlannedBuild] = ()

    @property
    def count(self) -> int:
        return len(self.views) + len(self.recomputable)

    def states_of(self, views: Sequence[ViewSink]) -> frozenset[int]:
        """The states that these views keep, their own rows not among them."""
        return frozenset(self.states[p] for view in views for p in view.plan.fingerprints)


def maintained(catalog: Catalog) -> Maintained:
    """All tables, views and states."""
    views = list(catalog.views.values())
    always = sinks([v for v in views if v.refresh == "incremental"])
    tables = {t.id: t for t in catalog.tables.values()}
    decided = [recomputable_view(catalog, v) for v in views if v.refresh != "incremental"]
    under_way = [planned_build(m) for m in catalog.builds.values() if not m.failed]
    return Maintained(tables, always, catalog.states, decided, under_way)


def sinks(views: Sequence[ViewDef]) -> list[ViewSink]:
    """Those of the views that are kept by deltas, as epochs see them."""
    return [v.sink for v in views if v.sink is not None]


def planned_build(making: ViewBuild) -> PlannedBuild:
    """A build as epochs carry it along."""
    return PlannedBuild(
        making.name,
        tuple(sinks(making.unpublished.views)),
        making.unpublished.states,
        making.tables,
        making.loaded,
        making.rows,
        making.total,
    )


def recomputable_view(catalog: Catalog, view: ViewDef, others: Sequence[ViewDef] = ()) -> RecomputableView:
    """A view with its query and, unless it is always recomputed, its plan."""
    return RecomputableView(
        view.name,
        view.state,
        view.tables,
        catalog.query(view, others),
        view.columns,
        view.key,
        view.place,
        view.sink,
        view.reason,
    )
