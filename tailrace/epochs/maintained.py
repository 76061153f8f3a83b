"""The input of an epoch: the tables, views, states and builds of a catalog, with physical plans."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field, replace

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
    `definitions` are the definitions of all views by name; failed views are among them.
    """

    tables: Mapping[int, TableDef]
    views: Sequence[ViewSink]
    states: Mapping[str, int]
    recomputable: Sequence[RecomputableView] = ()
    builds: Sequence[PlannedBuild] = ()
    definitions: Mapping[str, ViewDef] = field(default_factory=dict)

    @property
    def count(self) -> int:
        return len(self.views) + len(self.recomputable)

    @property
    def planned(self) -> list[ViewSink]:
        """All views that have a plan."""
        return [*self.views, *(v.sink for v in self.recomputable if v.sink is not None)]

    @property
    def live_states(self) -> frozenset[int]:
        """The states that these views keep, with their rows."""
        return self.states_of(self.planned) | self.row_states

    @property
    def row_states(self) -> frozenset[int]:
        """The states that hold the rows of these views."""
        return frozenset([*(v.state for v in self.views), *(v.state for v in self.recomputable)])

    def without(self, names: Collection[str]) -> Maintained:
        """Leaves out views by name."""
        return self._restricted({d.state for n, d in self.definitions.items() if n not in names}) if names else self

    def only(self, names: Collection[str]) -> Maintained:
        """Only the views of these names."""
        return self._restricted({d.state for n, d in self.definitions.items() if n in names})

    def _restricted(self, states: Collection[int]) -> Maintained:
        views = [v for v in self.views if v.state in states]
        return replace(self, views=views, recomputable=[v for v in self.recomputable if v.state in states])

    def dependants_of(self, names: Collection[str]) -> dict[str, str]:
        """The views that read these, directly or not, each with one of `names` that it depends on."""
        roots = {name: name for name in names}
        found = True
        while found:
            found = False
            for view in self.definitions.values():
                root = next((roots[used] for used in view.uses if used in roots), None)
                if root is not None and view.name not in roots:
                    roots[view.name] = root
                    found = True
        return {name: root for name, root in roots.items() if name not in names}

    def temporal_states_of(self, views: Sequence[ViewSink]) -> frozenset[int]:
        """The states of the temporal filters of the views."""
        return frozenset(self.states[fingerprint] for view in views for fingerprint in view.plan.temporal)

    def states_of(self, views: Sequence[ViewSink]) -> frozenset[int]:
        """The states that the views keep, without the view rows."""
        return frozenset(self.states[p] for view in views for p in view.plan.fingerprints)


def maintained(catalog: Catalog) -> Maintained:
    """All tables, views and states of a catalog, and its builds that have not failed."""
    tables, views, states = catalog.definitions
    incremental = sinks([v for v in views.values() if v.refresh == "incremental"])
    recomputable = [recomputable_view(catalog, v) for v in views.values() if v.refresh != "incremental"]
    builds = [planned_build(b) for b in catalog.builds.values() if not b.failed]
    return Maintained({t.id: t for t in tables.values()}, incremental, states, recomputable, builds, views)


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
