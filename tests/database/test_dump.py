"""Dumps: definitions as SQL, rows as Parquet, one cut; a restored dump equals the store."""

from __future__ import annotations

import datetime
import json
import math
from collections.abc import Iterator
from decimal import Decimal
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq
import pytest
from pyspark.sql import SparkSession

import tailrace as tr
from tailrace.catalog.create_sql import create_table_sql, create_view_sql
from tailrace.catalog.retention import RETENTIONS
from tailrace.codec.schema import TableDef
from tailrace.database.inside import inside
from tailrace.database.progress import Step
from tailrace.errors import BadBackup, StoreError, UnknownName
from tailrace.plan.sql.statements import CreateTable, parse
from tailrace.types import SCALARS, Column

ODD = "Odd `name`/with ; -- and 'quotes'"
COLUMNS = (
    *(Column(f"c_{kind}", kind) for kind in SCALARS),
    Column("c_decimal", "decimal(38,10)"),
    Column("PRIMARY", "string"),
    Column(ODD, "int"),
)
WIDE = TableDef(1, "wide", COLUMNS, ("c_string", "c_bigint"))
UTC = datetime.UTC
ROWS: list[dict[str, Any]] = [
    {
        "c_string": "a",
        "c_bigint": 2**63 - 1,
        "c_boolean": True,
        "c_tinyint": -128,
        "c_smallint": 32767,
        "c_int": -(2**31),
        "c_float": -0.0,
        "c_double": 5e-324,
        "c_binary": bytes(range(256)),
        "c_date": datetime.date(1, 1, 1),
        "c_timestamp": datetime.datetime(2026, 3, 29, 1, 59, 59, 999_999, UTC),
        "c_timestamp_ntz": datetime.datetime(9999, 12, 31, 23, 59, 59, 999_999),
        "c_decimal": Decimal("-9999999999999999999999999999.9999999999"),
        "PRIMARY": "ẞ\U0001f600\n",
        ODD: 1,
    },
    {"c_string": "", "c_bigint": 0, "c_double": math.inf, "c_binary": b"", "PRIMARY": ""},
    {"c_string": "null", "c_bigint": 1},
]


@pytest.fixture
def db(tmp_path: Path, spark: SparkSession) -> Iterator[tr.Database]:
    with tr.open(tmp_path / "shop", create=True, spark=spark, map_size=1 << 28) as opened:
        opened.sql(create_table_sql(WIDE))
        opened.table("wide").put_many(ROWS)
        for name in ("a", "b", f"`{ODD.replace('`', '``')}`", "empty"):
            opened.sql(f"CREATE TABLE {name} (k INT, id INT, v DOUBLE, PRIMARY KEY (id, k))")
        opened.sql(
            "CREATE TABLE brief (id INT PRIMARY KEY, `the time` DATE) WITH (ttl = '36 hours', ttl_column = 'The Time')"
        )
        opened.table("a").put_many([{"id": i, "k": i % 3, "v": i / 7} for i in range(500)])
        opened.table(ODD).put({"id": 1, "k": 2, "v": math.nan})
        opened.sql(
            """
            CREATE MATERIALIZED VIEW zero AS -- a comment; with a semicolon
                SELECT k, COUNT(*) AS n, /* another */ SUM(v) AS s FROM a GROUP BY k ORDER BY n DESC;
            CREATE MATERIALIZED VIEW above WITH (refresh = 'auto') AS SELECT k FROM zero WHERE n > 1 -- the end
            ;
            CREATE MATERIALIZED VIEW `The Same` WITH (refresh = 'full') AS
                SELECT a.id, count(*) AS `x y` FROM a JOIN above ON a.k = above.k GROUP BY a.id;
            CREATE MATERIALIZED VIEW texts AS SELECT c_string, c_decimal, ';' AS semicolon FROM wide
            """
        )
        yield opened


def definitions(db: tr.Database) -> dict[str, Any]:
    """Everything that CREATE statements say; not the numbers of tables and states."""
    catalog = inside(db).catalog
    retentions = inside(db).store.documents(RETENTIONS)
    tables = {t.name: (t.columns, t.key, retentions.get(str(t.id))) for t in catalog.tables.values()}
    views = {v.name: (v.sql, v.refresh, v.reason, v.columns, v.key, v.order, v.uses) for v in catalog.views.values()}
    return {**tables, **views}


def rows(db: tr.Database) -> dict[str, Any]:
    """All rows. Compared as text, because NaN is not equal to itself, and 0.0 is equal to -0.0."""
    relations = [*(db.table(n) for n in db.tables()), *(db.view(n) for n in db.views())]
    return {r.name: sorted(repr(tuple(row.values())) for row in r.scan().to_pylist()) for r in relations}


@pytest.mark.parametrize("options", [{}, {"nodes": 3}, {"nodes": 1, "shards": 5, "durable": False}])
def test_a_restored_dump_equals_the_store(
    db: tr.Database, tmp_path: Path, spark: SparkSession, options: dict[str, Any]
) -> None:
    saved = db.dump(tmp_path / "dump")
    assert saved.position == inside(db).store.newest_cut().transaction
    report = tr.restore(tmp_path / "dump", tmp_path / "again", spark=spark, map_size=1 << 28, **options)
    assert report.ok, report
    assert {r.view for r in report.reports} == set(db.views())
    with tr.open(tmp_path / "again", spark=spark) as again:
        assert definitions(again) == definitions(db)
        assert rows(again) == rows(db)
        assert (inside(again).store.nodes, inside(again).store.shards) == (
            options.get("nodes", 2),
            options.get("shards", 2 * options.get("nodes", 2)),
        )
        again.table("a").put({"id": 1000, "k": 1, "v": 1.0})
        again.refresh()
        assert again.audit().ok
    assert sorted(p.name for p in tmp_path.iterdir()) == ["again", "dump", "shop"]


def test_a_dump_is_one_cut_with_the_newest_writes(db: tr.Database, tmp_path: Path) -> None:
    with db.transaction() as t:  # not in views: no epoch runs
        t.table("a").put({"id": 9001, "k": 0, "v": 0.5})
        t.table("b").put({"id": 9001, "k": 0, "v": 0.5})

    def disturb(step: Step) -> None:
        if str(step).startswith("writing"):
            with db.transaction() as t:
                t.table("a").put_many([{"id": i, "k": i % 3, "v": -1.0} for i in range(9000, 9003)])
                t.table("b").put({"id": 9002, "k": 0, "v": -1.0})
                t.table("a").delete((5, 2))
            db.refresh()

    before = {name: sorted(map(repr, db.table(name).scan().to_pylist())) for name in db.tables()}
    db.dump(tmp_path / "dump", progress=disturb)
    files = json.loads((tmp_path / "dump" / "manifest.json").read_text())["tables"]
    dumped = {name: pq.read_table(tmp_path / "dump" / file) for name, file in files.items()}
    assert {name: sorted(map(repr, table.to_pylist())) for name, table in dumped.items()} == before
    assert {name: table.schema for name, table in dumped.items()} == {n: db.table(n).schema for n in db.tables()}
    assert (files["a"], files["wide"]) == ("tables/a.parquet", "tables/wide.parquet")
    assert db.status().pins == []


def test_the_schema_creates_everything_in_order(db: tr.Database, tmp_path: Path) -> None:
    db.dump(tmp_path / "dump")
    statements = parse((tmp_path / "dump" / "schema.sql").read_text())
    names = [statement.name for statement in statements]  # type: ignore[union-attr]
    assert sorted(names) == sorted([*db.tables(), *db.views()])
    assert all(isinstance(s, CreateTable) for s in statements[: len(db.tables())])
    assert names.index("zero") < names.index("above") < names.index("the same")


def test_definitions_as_sql(db: tr.Database) -> None:
    catalog = inside(db).catalog
    assert create_table_sql(catalog.table("b")) == (
        "CREATE TABLE b (\n  k INT,\n  id INT,\n  v DOUBLE,\n  PRIMARY KEY (id, k)\n)"
    )
    assert create_view_sql(catalog.relations, catalog.view("above")) == (
        "CREATE MATERIALIZED VIEW above WITH (refresh = 'auto') AS\nSELECT k FROM zero WHERE n > 1"
    )


def test_a_time_to_live_as_sql(db: tr.Database, tmp_path: Path) -> None:
    db.dump(tmp_path / "dump")
    schema = (tmp_path / "dump" / "schema.sql").read_text()
    assert "PRIMARY KEY (id)\n) WITH (ttl = '36 hours', ttl_column = 'the time');" in schema


def test_a_table_dropped_during_a_dump(db: tr.Database, tmp_path: Path) -> None:
    def drop(step: Step) -> None:
        if str(step).startswith("writing a"):
            db.drop("b")

    with pytest.raises(UnknownName, match="'b'"):
        db.dump(tmp_path / "dump", progress=drop)
    assert [p.name for p in tmp_path.iterdir()] == ["shop"]


def test_a_dump_does_not_replace_anything(db: tr.Database, tmp_path: Path) -> None:
    db.dump(tmp_path / "dump")
    with pytest.raises(StoreError, match="already exists"):
        db.dump(tmp_path / "dump")
    with pytest.raises(StoreError, match="already exists"):
        tr.restore(tmp_path / "dump", tmp_path / "shop")


@pytest.mark.parametrize("file", ["schema.sql", "tables/a.parquet", "tables/empty.parquet"])
def test_a_damaged_dump_creates_nothing(db: tr.Database, tmp_path: Path, file: str) -> None:
    db.dump(tmp_path / "dump")
    path = tmp_path / "dump" / file
    path.write_bytes(path.read_bytes()[:-9] + b" " + path.read_bytes()[-8:])
    with pytest.raises(BadBackup, match=file):
        tr.restore(tmp_path / "dump", tmp_path / "again")
    assert sorted(p.name for p in tmp_path.iterdir()) == ["dump", "shop"]


def test_a_manifest_without_its_files_creates_nothing(db: tr.Database, tmp_path: Path) -> None:
    db.dump(tmp_path / "dump")
    path = tmp_path / "dump" / "manifest.json"
    manifest = json.loads(path.read_text())
    for missing in ("schema.sql", "tables/a.parquet"):
        files = {name: record for name, record in manifest["files"].items() if name != missing}
        path.write_text(json.dumps({**manifest, "files": files}))
        with pytest.raises(BadBackup, match=r"manifest\.json"):
            tr.restore(tmp_path / "dump", tmp_path / "again")
    assert sorted(p.name for p in tmp_path.iterdir()) == ["dump", "shop"]
