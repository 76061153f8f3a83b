"""Definitions as SQL: the statements that create a table or view exactly as it is."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from tailrace.catalog.definition import ViewDef
from tailrace.catalog.retention import Retention
from tailrace.codec.schema import TableDef
from tailrace.plan.sql.durations import UNITS
from tailrace.types import Column, is_scalar, quoted

_UNITS = sorted(((size, f"{unit}s") for unit, size in UNITS.items()), reverse=True)


def create_table_sql(table: TableDef, retention: Retention | None = None) -> str:
    """The CREATE TABLE statement of a table, whose rows live for as long as `retention` says."""
    columns = [f"{quoted(column.name)} {_type(column)}" for column in table.columns]
    key = ", ".join(quoted(name) for name in table.key)
    body = ",\n  ".join([*columns, f"PRIMARY KEY ({key})"])
    return f"CREATE TABLE {quoted(table.name)} (\n  {body}\n){_time_to_live(retention)}"


def _time_to_live(retention: Retention | None) -> str:
    if retention is None:
        return ""
    length, unit = next((retention.length // size, unit) for size, unit in _UNITS if retention.length % size == 0)
    return f" WITH (ttl = '{length} {unit}', ttl_column = {quoted(retention.column)})"


def _type(column: Column) -> str:
    """The type in upper case, except that the field names of a struct keep their case."""
    return column.type.upper() if is_scalar(column.type) else column.type


def create_view_sql(view: ViewDef) -> str:
    """The CREATE MATERIALIZED VIEW statement of a view. Its query is as the user wrote it."""
    options = "" if view.refresh == "incremental" else f" WITH (refresh = '{view.refresh}')"
    return f"CREATE MATERIALIZED VIEW {quoted(view.name)}{options} AS\n{view.sql}"


def schema_sql(tables: Iterable[TableDef], retentions: Mapping[str, Retention], views: Mapping[str, ViewDef]) -> str:
    """The statements that create all tables, then all views, each view after the views it reads.

    `retentions` are by table id, as text.
    """
    ordered = sorted(tables, key=lambda table: table.name)
    statements = [create_table_sql(table, retentions.get(str(table.id))) for table in ordered]
    statements += [create_view_sql(view) for view in _in_order(views)]
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
