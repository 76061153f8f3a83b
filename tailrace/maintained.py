"""The catalog as epochs see it."""

from __future__ import annotations

from collections.abc import Sequence

from tailrace.maintain.builds import Build
from tailrace.maintain.epochs import Maintained
from tailrace.maintain.recompute import Chosen
from tailrace.maintain.sizing import ViewSink
from tailrace.views.catalog import Catalog, Making, ViewDef


def maintained(catalog: Catalog) -> Maintained:
    """All tables, views and states."""
    views = list(catalog.views.values())
    always = sinks([v for v in views if v.refresh == "incremental"])
    tables = {t.id: t for t in catalog.tables.values()}
    decided = [chosen(catalog, v) for v in views if v.refresh != "incremental"]
    under_way = [build_of(m) for m in catalog.making.values() if not m.failed]
    return Maintained(tables, always, catalog.states, decided, under_way)


def sinks(views: Sequence[ViewDef]) -> list[ViewSink]:
    """Those of the views that are kept by deltas, as epochs see them."""
    return [v.sink for v in views if v.sink is not None]


def build_of(making: Making) -> Build:
    """A build as epochs carry it along."""
    return Build(
        making.name,
        tuple(sinks(making.draft.views)),
        making.draft.states,
        making.tables,
        making.loaded,
        making.rows,
        making.total,
    )


def chosen(catalog: Catalog, view: ViewDef, others: Sequence[ViewDef] = ()) -> Chosen:
    """A view with its query and, unless it is always recomputed, its plan."""
    return Chosen(
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
