"""Dumps a store: definitions as SQL and rows as Parquet, which other programs can read, too.

    schema.sql              CREATE statements of all tables and views
    tables/<name>.parquet   the rows of each table, all at one cut
    manifest.json           checksums, the file of each table, nodes, shards and max_lag

The cut is the newest one. A pin keeps the log after it, so the rows at the cut stay readable while others write.
"""

from __future__ import annotations

import re
from datetime import UTC, datetime
from pathlib import Path

import pyarrow.parquet as pq

from tailrace.catalog.catalog import Catalog
from tailrace.catalog.create_sql import schema_sql
from tailrace.catalog.pinned import pinned_relations
from tailrace.catalog.retention import RETENTIONS
from tailrace.codec.schema import TableDef
from tailrace.database.admission import max_lag
from tailrace.database.backup import Saved
from tailrace.database.drafts import draft
from tailrace.database.progress import OnStep, Step
from tailrace.store import manifest as manifests
from tailrace.store.base import Cut, Store
from tailrace.store.manifest import Manifest
from tailrace.version import VERSION

SCHEMA = "schema.sql"
_PLAIN = re.compile(r"[a-z0-9_]{1,100}")  # names of tables that are used as file names


def dump(store: Store, catalog: Catalog, target: Path, on_step: OnStep) -> Saved:
    """Writes a dump into a new directory, which appears when the dump is complete."""
    with draft(target) as place, pinned_relations(store, catalog) as (_, relations):
        store.catch_up()
        cut = store.newest_cut()
        schema = schema_sql(relations, store.documents(RETENTIONS))
        (place / SCHEMA).write_text(schema, encoding="utf-8")
        (place / "tables").mkdir()
        tables = {name: _file_name(table) for name, table in sorted(relations.tables.items())}
        for name, file in tables.items():
            _write_rows(store, relations.tables[name], cut, place / file, on_step)
            catalog.newest(relations.tables[name])  # rows are incomplete if the table was dropped meanwhile
        on_step(Step("computing checksums"))
        files = manifests.record_files(place, [SCHEMA, *tables.values()])
        now = datetime.now(UTC).isoformat(timespec="seconds")
        settings = {"nodes": store.nodes, "shards": store.shards, "max_lag": max_lag(store)}
        manifest = Manifest("dump", VERSION, now, cut, 0, settings, files, tables)
        manifests.write_manifest(place, manifest)
    return Saved(str(target), cut.position.number, 0, len(files), manifest.size)


def _file_name(table: TableDef) -> str:
    """The file of a table. Names that a file system may not accept are replaced by the table's number."""
    return f"tables/{table.name if _PLAIN.fullmatch(table.name) else f'table-{table.id}'}.parquet"


def _write_rows(store: Store, table: TableDef, cut: Cut, path: Path, on_step: OnStep) -> None:
    rows, total = 0, store.count(table)
    all_columns = range(len(table.columns))
    with pq.ParquetWriter(path, table.schema, compression="zstd") as writer:
        for node in range(store.nodes):
            for batch in store.rows(table, node, cut, all_columns):
                writer.write_batch(batch)
                rows += batch.num_rows
                on_step(Step(f"writing {table.name}", rows, max(rows, total)))
