"""The eight tables: generated as Parquet files by `tpchgen-cli` and loaded into a store."""

from __future__ import annotations

from pathlib import Path

import tailrace as tr
from tailrace import loading
from tailrace.demo import data

TABLES = {
    "region": "CREATE TABLE region (r_regionkey BIGINT PRIMARY KEY, r_name STRING, r_comment STRING)",
    **data.TABLES,
    "partsupp": """CREATE TABLE partsupp (ps_partkey BIGINT, ps_suppkey BIGINT, ps_availqty INT,
        ps_supplycost DECIMAL(15,2), ps_comment STRING, PRIMARY KEY (ps_partkey, ps_suppkey))""",
}


def generate(scale: float, directory: Path) -> dict[str, Path]:
    """The files of all eight tables. Existing files are reused."""
    return data.generate(scale, directory, TABLES)


def load(db: tr.Database, files: dict[str, Path]) -> int:
    """Creates the tables and loads the files. Returns the number of rows."""
    rows = 0
    for name, ddl in TABLES.items():
        db.sql(ddl)
        rows += loading.load(db.table(name), [files[name]])
    return rows
