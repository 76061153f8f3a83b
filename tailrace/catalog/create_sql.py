"""Definitions as SQL: the statements that create a table or view exactly as it is now."""

from __future__ import annotations

from collections.abc import Mapping

from tailrace.catalog.catalog import Relations
from tailrace.catalog.definition import ViewDef
from tailrace.catalog.retention import Retention
from tailrace.catalog.view_text import known_sql
from tailrace.codec.schema import TableDef
from tailrace.plan.sql.durations import UNITS
from tailrace.plan.sql.literals import default_sql
from tailrace.plan.sql.naming import name_sql
from tailrace.types import Column, is_scalar

_UNITS = sorted(((size, f"{unit}s") for unit, size in UNITS.items()), reverse=True)


def create_table_sql(
    table: TableDef, retention: Retention | None = None, place: Mapping[str, str] | None = None
) -> str:
    """The CREATE TABLE statement of a table, whose rows live for as long as `retention` says, where `place` says."""
    stored = {c.name: c for c in table.layout.columns if not c.dropped} if table.layout is not None else {}
    lines = []
    for column in table.columns:
        default = stored[column.name].default if column.name in stored else None
        clause = "" if default is None else f" DEFAULT {default_sql(default, column.type)}"
        lines.append(f"{name_sql(column.name)} {_type(column)}{clause}")
    lines.append(f"PRIMARY KEY ({', '.join(map(name_sql, table.key))})")
    body = ",\n  ".join(lines)
    options = {**_time_to_live(retention), **(place or {})}
    given = ", ".join(f"{option} = {default_sql(value, 'string')}" for option, value in options.items())
    return f"CREATE TABLE {name_sql(table.name)} (\n  {body}\n)" + (f" WITH ({given})" if given else "")


def _time_to_live(retention: Retention | None) -> dict[str, str]:
    if retention is None:
        return {}
    length, unit = next((retention.length // size, unit) for size, unit in _UNITS if retention.length % size == 0)
    return {"ttl": f"{length} {unit}", "ttl_column": retention.column}


def _type(column: Column) -> str:
    """The type in upper case, except that the field names of a struct keep their case."""
    return column.type.upper() if is_scalar(column.type) else column.type


def create_view_sql(relations: Relations, view: ViewDef) -> str:
    """The CREATE MATERIALIZED VIEW statement of a view. Columns added to its tables since are hidden from it."""
    options = "" if view.refresh == "incremental" else f" WITH (refresh = '{view.refresh}')"
    return f"CREATE MATERIALIZED VIEW {name_sql(view.name)}{options} AS\n{known_sql(relations, view)}"


def schema_sql(relations: Relations, retentions: Mapping[str, Retention]) -> str:
    """The statements that create all tables, then all views, each view after the views it reads.

    `retentions` are by table id, as text.
    """
    ordered = sorted(relations.tables.values(), key=lambda table: table.name)
    statements = [create_table_sql(table, retentions.get(str(table.id))) for table in ordered]
    statements += [create_view_sql(relations, view) for view in _in_order(relations.views)]
    return "".join(f"{statement};\n\n" for statement in statements)


def _in_order(views: Mapping[str, ViewDef]) -> list[ViewDef]:
    """The views, each after those it reads."""
    ordered: dict[str, ViewDef] = {}

    def add(view: ViewDef) -> None:
        for name in view.uses:
            if name in views and name not in ordered:
                add(views[name])
        ordered.setdefault(view.name, view)

    for _, view in sorted(views.items()):
        add(view)
    return list(ordered.values())
