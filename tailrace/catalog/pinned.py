"""Pins of epochs at which given views are readable: a view has no rows at epochs before it was published."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from contextlib import contextmanager

from tailrace.catalog.catalog import Catalog, Relations
from tailrace.store.base import Store
from tailrace.store.pins import Pin, pinned


@contextmanager
def readable(store: Store, catalog: Catalog, names: Iterable[str]) -> Iterator[Pin]:
    """Pins an epoch at which all named tables and views are readable."""
    while True:
        with pinned(store) as pin:
            views = catalog.views
            if all(views[name].since <= pin.epoch for name in names if name in views):
                yield pin
                return


@contextmanager
def pinned_relations(store: Store, catalog: Catalog) -> Iterator[tuple[Pin, Relations]]:
    """Pins an epoch at which all tables and views are readable; yields it with them."""
    while True:
        with pinned(store) as pin:
            relations = catalog.relations
            if all(view.since <= pin.epoch for view in relations.views.values()):
                yield pin, relations
                return
