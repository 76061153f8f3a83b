"""The catalog as epochs see it."""

from __future__ import annotations

from tailrace.maintain.compile import ViewSink
from tailrace.maintain.epochs import Maintained
from tailrace.maintain.recompute import Chosen
from tailrace.views.catalog import Catalog, ViewDef


def maintained(catalog: Catalog) -> Maintained:
    """All tables, views and states."""
    views = list(catalog.views.values())
    always = [_sink(v) for v in views if v.refresh == "incremental"]
    tables = {t.id: t for t in catalog.tables.values()}
    decided = [chosen(catalog, v) for v in views if v.refresh != "incremental"]
    return Maintained(tables, [s for s in always if s is not None], catalog.states, decided)


def _sink(view: ViewDef) -> ViewSink | None:
    return None if view.plan is None else ViewSink(view.state, view.plan, view.place)


def chosen(catalog: Catalog, view: ViewDef) -> Chosen:
    """A view with its query and, unless it is always recomputed, its plan."""
    return Chosen(
        view.name,
        view.state,
        view.tables,
        catalog.query(view),
        view.columns,
        view.key,
        view.place,
        _sink(view),
        view.reason,
    )
