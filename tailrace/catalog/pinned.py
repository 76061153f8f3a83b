"""Tables and views as Spark sees them: at one pinned epoch, under their own names."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from contextlib import contextmanager

from tailrace.catalog.catalog import Catalog, Relations
from tailrace.store.base import Store
from tailrace.store.pins import Pin, pinned

WEIGHT_COLUMN = "_weight"


@contextmanager
def readable(store: Store, catalog: Catalog, names: Iterable[str]) -> Iterator[Pin]:
    """Pin an epoch at which all these can be read: none from before one of these views was published."""
    while True:
        with pinned(store) as pin:
            views = catalog.views
            if all(views[name].since <= pin.epoch for name in names if name in views):
                yield pin
                return


@contextmanager
def pinned_relations(store: Store, catalog: Catalog) -> Iterator[tuple[Pin, Relations]]:
    """Pin an epoch, with all tables and views there are, at which all of them can be read."""
    while True:
        with pinned(store) as pin:
            relations = catalog.relations
            if all(view.since <= pin.epoch for view in relations.views.values()):
                yield pin, relations
                return
