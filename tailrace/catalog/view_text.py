"""The SQL of a view as it must be written today to mean what it meant when the view was created."""

from __future__ import annotations

from tailrace.catalog.catalog import Relations
from tailrace.catalog.definition import ViewDef
from tailrace.plan.sql.frozen import freeze
from tailrace.plan.sql.statements import parse_query


def known_sql(relations: Relations, view: ViewDef) -> str:
    """The SQL of a view, with added columns of its tables hidden if it would see them."""
    seen, added = {}, {}
    for name in view.uses:
        if name in relations.tables:
            names = [c.name for c in relations.tables[name].columns]
            seen[name] = [c.name for c in view.known(relations.tables[name]).columns]
            added[name] = [n for n in names if n not in seen[name]]
    return freeze(view.sql, parse_query(view.sql), seen, added) if any(added.values()) else view.sql
