"""SHOW CREATE: the statement that creates a table or view as it is now."""

from __future__ import annotations

import pyarrow as pa

from tailrace.catalog.catalog import Catalog, Relations
from tailrace.catalog.definition import ViewDef
from tailrace.catalog.retention import Retention
from tailrace.catalog.view_text import known_sql
from tailrace.codec.schema import TableDef
from tailrace.plan.sql.altering import ShowCreate
from tailrace.plan.sql.literals import default_sql
from tailrace.plan.sql.naming import name_sql
from tailrace.types import is_scalar


def show_create(catalog: Catalog, statement: ShowCreate) -> pa.Table:
    """One row with the statement."""
    relations = catalog.relations
    if statement.kind == "table":
        table = relations.table(statement.name)
        text = create_table(table, catalog.retention(table))
    else:
        text = create_view(relations, relations.view(statement.name))
    return pa.table({"statement": pa.array([text], pa.string())})


def create_table(table: TableDef, retention: Retention | None = None) -> str:
    stored = {c.name: c for c in table.layout.columns if not c.dropped} if table.layout is not None else {}
    lines = []
    for column in table.columns:
        default = stored[column.name].default if column.name in stored else None
        clause = "" if default is None else f" DEFAULT {default_sql(default, column.type)}"
        type_name = column.type.upper() if is_scalar(column.type) else column.type  # fields of structs keep their case
        lines.append(f"  {name_sql(column.name)} {type_name}{clause}")
    lines.append(f"  PRIMARY KEY ({', '.join(map(name_sql, table.key))})")
    options = ""
    if retention is not None:
        time_column = default_sql(retention.column, "string")
        options = f" WITH (ttl = '{retention.length} microseconds', ttl_column = {time_column})"
    return f"CREATE TABLE {name_sql(table.name)} (\n" + ",\n".join(lines) + f"\n){options}"


def create_view(relations: Relations, view: ViewDef) -> str:
    options = "" if view.refresh == "incremental" else f" WITH (refresh = '{view.refresh}')"
    return f"CREATE MATERIALIZED VIEW {name_sql(view.name)}{options} AS\n{known_sql(relations, view)}"
