"""The options of CREATE TABLE for a table in HBase.

hbase.table      the table of HBase; it is made if it does not exist
hbase.columns    the cells of its columns (`store/hbase/mapping.py`)
"""

from __future__ import annotations

import re
from collections.abc import Mapping

from tailrace.codec.schema import TableDef
from tailrace.errors import SqlError, Unsupported
from tailrace.store.hbase.admin import Admin
from tailrace.store.hbase.mapping import KEY, TableMapping, default_mapping, escape, given_mapping

TABLE, COLUMNS = "hbase.table", "hbase.columns"
_NAME = re.compile(r"(?:[\w]+:)?[\w][\w.-]*", re.ASCII)


def create_mapping(admin: Admin, namespace: str, table: TableDef, options: Mapping[str, str]) -> TableMapping:
    """The mapping of a new table. Raises `SqlError` if the options do not fit."""
    for option in options:
        if option not in (TABLE, COLUMNS):
            raise Unsupported(construct=f"option {option}", reason=f"the options of HBase are {TABLE} and {COLUMNS}")
    name = options.get(TABLE)
    if name is None:
        name = _own_name(admin, namespace, table)
    elif not _NAME.fullmatch(name):
        raise SqlError(message=f"{TABLE} {name!r} is no name of a table in HBase, such as 'orders' or 'shop:orders'")
    name = name.removeprefix("default:")
    if name.startswith(f"{namespace}:"):
        raise SqlError(message=f"{TABLE} {name!r} is in the namespace of the store itself; use another one")
    exists = admin.table_exists(name)
    if COLUMNS in options:
        return given_mapping(name, options[COLUMNS], table, not exists)
    if exists:
        message = f"the HBase table {name} exists; {COLUMNS} must say which cells the columns are"
        raise SqlError(message=f"{message}, as in 'id=:key, price=f:price#binary'")
    return default_mapping(name, table)


def _own_name(admin: Admin, namespace: str, table: TableDef) -> str:
    """The name of a table of HBase that the user has not named. It does not exist yet."""
    name = f"{namespace}_data:{re.sub('[^a-zA-Z0-9_.-]', '_', table.name)}"
    return name if not admin.table_exists(name) else f"{name}_{table.id}"


def table_options(mapping: TableMapping, table: TableDef) -> dict[str, str]:
    """The options that give a table the mapping that it has."""
    cells = dict(zip((c.name for c in table.stored), mapping.cells, strict=False))
    texts = {c.name: cells[c.name] or f"{KEY}#{mapping.key_encoding}" for c in table.columns}
    return {
        TABLE: mapping.table,
        COLUMNS: ", ".join(f"{escape(name.encode())}={text}" for name, text in texts.items()),
    }
