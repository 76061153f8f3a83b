"""SHOW CREATE: the statement that creates a table or view as it is now."""

from __future__ import annotations

import pyarrow as pa

from tailrace.catalog.catalog import Catalog
from tailrace.catalog.create_sql import create_table_sql, create_view_sql
from tailrace.plan.sql.altering import ShowCreate


def show_create(catalog: Catalog, statement: ShowCreate) -> pa.Table:
    """One row with the statement."""
    relations = catalog.relations
    if statement.kind == "table":
        table = relations.table(statement.name)
        text = create_table_sql(table, catalog.retention(table), catalog.place(table))
    else:
        text = create_view_sql(relations, relations.view(statement.name))
    return pa.table({"statement": pa.array([text], pa.string())})
