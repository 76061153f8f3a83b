"""The input of an epoch: the tables, views, states and builds of a catalog, with physical plans."""

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
    """Everything that an epoch maintains: tables by id, views, and the number of each state by its fingerprint.

    `views` are always maintained by deltas. For `recomputable` views each epoch chooses. `builds` are being built.
    """

    tables: Mapping[int, TableDef]
    views: Sequence[ViewSink]
    states: Mapping[str, int]
    recomputable: Sequence[RecomputableView] = ()
    builds: Sequence[PlannedBuild] = ()

    @property
    def count(self) -> int:
        return len(self.views) + len(self.recomputable)

    @property
    def planned(self) -> list[ViewSink]:
        """All views that have a plan."""
        return [*self.views, *(v.sink for v in self.recomputable if v.sink is not None)]

    def temporal_states_of(self, views: Sequence[ViewSink]) -> frozenset[int]:
        """The states of the temporal filters of the views."""
        return frozenset(self.states[fingerprint] for view in views for fingerprint in view.plan.temporal)

    def states_of(self, views: Sequence[ViewSink]) -> frozenset[int]:
        """The states that the views keep, without the view rows."""
        return frozenset(self.states[p] for view in views for p in view.plan.fingerprints)


def maintained(catalog: Catalog) -> Maintained:
    """All tables, views and states of a catalog, and its builds that have not failed."""
    views = list(catalog.views.values())
    incremental = sinks([v for v in views if v.refresh == "incremental"])
    tables = {t.id: t for t in catalog.tables.values()}
    recomputable = [recomputable_view(catalog, v) for v in views if v.refresh != "incremental"]
    builds = [planned_build(b) for b in catalog.builds.values() if not b.failed]
    return Maintained(tables, incremental, catalog.states, recomputable, builds)


def sinks(views: Sequence[ViewDef]) -> list[ViewSink]:
    """The sinks of those views that have a physical plan."""
    return [v.sink for v in views if v.sink is not None]


def planned_build(build: ViewBuild) -> PlannedBuild:
    return PlannedBuild(
        build.name,
        tuple(sinks(build.unpublished.views)),
        build.unpublished.states,
        build.tables,
        build.loaded,
        build.rows,
        build.total,
    )


def recomputable_view(catalog: Catalog, view: ViewDef, others: Sequence[ViewDef] = ()) -> RecomputableView:
    """A view with its query and, unless it is always recomputed, its sink. `others` are unpublished views."""
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
