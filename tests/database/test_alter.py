"""ALTER TABLE changes columns without touching rows: old rows, old handles, open transactions and snapshots go on."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Iterator
from datetime import UTC, date, datetime
from decimal import Decimal
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import tailrace as tr
from tailrace.database.expiry import ExpiredRows
from tailrace.database.inside import inside
from tailrace.errors import NameTaken, SqlError, TableAltered, TailraceError, UnknownColumn, UnknownName, Unsupported
from tailrace.loading import load
from tailrace.store.base import Change


@pytest.fixture
def db(tmp_path: Path) -> Iterator[tr.Database]:
    """A store without Spark: no statement here needs it."""
    with tr.open(tmp_path / "s", create=True, map_size=1 << 28) as database:
        database.sql("CREATE TABLE t (id INT PRIMARY KEY, a INT, s STRING)")
        database.table("t").put_many([{"id": i, "a": i * 10, "s": f"s{i}"} for i in range(4)])
        yield database


def rows(db: tr.Database | tr.Snapshot, name: str = "t") -> list[dict[str, Any]]:
    return sorted(db.table(name).scan().to_pylist(), key=lambda row: row["id"])


def shown(db: tr.Database, what: str) -> str:
    result = db.sql(f"SHOW CREATE {what}")
    assert result is not None
    text: str = result.column("statement")[0].as_py()
    return text


def test_an_added_column_has_its_default_in_old_rows(db: tr.Database) -> None:
    db.sql("ALTER TABLE t ADD COLUMN c INT DEFAULT -5; ALTER TABLE t ADD COLUMNS (d DATE, e DECIMAL(5,2) DEFAULT 1.5)")
    table = db.table("t")
    old = {"id": 1, "a": 10, "s": "s1", "c": -5, "d": None, "e": Decimal("1.50")}
    assert table.get(1) == old
    assert table.get_many([1]).to_pylist() == [old]
    assert rows(db)[1] == old
    table.put({"id": 7, "c": None})
    table.put_many(pa.table({"id": pa.array([8], pa.int32()), "d": [date(2026, 1, 1)]}))
    table.update({"id": 2, "d": "2026-02-02"})
    assert table.get(7) == {"id": 7, "a": None, "s": None, "c": None, "d": None, "e": Decimal("1.50")}
    assert table.get(8) == {"id": 8, "a": None, "s": None, "c": -5, "d": date(2026, 1, 1), "e": Decimal("1.50")}
    assert table.get(2) == {"id": 2, "a": 20, "s": "s2", "c": -5, "d": date(2026, 2, 2), "e": Decimal("1.50")}
    assert db.audit().ok


def test_a_dropped_column_is_gone_and_its_name_may_return(db: tr.Database) -> None:
    db.sql("ALTER TABLE t DROP COLUMN A")
    assert rows(db)[1] == {"id": 1, "s": "s1"}
    with pytest.raises(UnknownColumn, match="no column 'a'"):
        db.table("t").put({"id": 1, "a": 1})
    db.table("t").put({"id": 1, "s": "new"})
    db.sql("ALTER TABLE t ADD COLUMN a STRING DEFAULT 'x'")
    assert rows(db)[:2] == [{"id": 0, "s": "s0", "a": "x"}, {"id": 1, "s": "new", "a": "x"}]
    db.table("t").delete(0)
    assert db.audit().ok


def test_names_change_and_rows_stay(db: tr.Database) -> None:
    handle = db.table("t")
    db.sql("ALTER TABLE t RENAME COLUMN id TO key; ALTER TABLE t RENAME COLUMN a TO A; ALTER TABLE t RENAME TO u")
    assert db.tables() == ["u"]
    assert handle.get(1) == db.table("u").get(1) == {"key": 1, "A": 10, "s": "s1"}
    handle.put({"key": 9, "a": 1})
    assert db.table("u").get(9) == {"key": 9, "A": 1, "s": None}
    assert (handle.name, handle.key) == ("u", ["key"])
    with pytest.raises(UnknownName, match="no table named 't'"):
        db.table("t")
    db.sql("CREATE TABLE t (id INT PRIMARY KEY)")
    assert (db.table("t").scan().num_rows, handle.scan().num_rows) == (0, 5)
    assert db.audit().ok


@pytest.mark.parametrize(
    ("statement", "error", "text"),
    [
        ("ALTER TABLE t ADD COLUMN A INT", SqlError, "already has a column named 'A'"),
        ("ALTER TABLE t ADD COLUMNS (x INT, X INT)", SqlError, "two columns named 'X'"),
        ("ALTER TABLE t ADD COLUMN x INT DEFAULT 'one'", SqlError, "DEFAULT one is not a literal of type INT"),
        ("ALTER TABLE t ADD COLUMN x TINYINT DEFAULT 200", SqlError, "not a literal of type TINYINT"),
        ("ALTER TABLE t ADD COLUMN x DECIMAL(3,1) DEFAULT 1.25", SqlError, "not a literal of type DECIMAL"),
        ("ALTER TABLE t ADD COLUMN x INT DEFAULT 1 + 1", Unsupported, r"\+ on column 'x'"),
        ("ALTER TABLE t ADD COLUMN x INT PRIMARY KEY", Unsupported, "the key of a table cannot change"),
        ("ALTER TABLE t ADD COLUMN x INT NOT NULL", Unsupported, "remove NOT NULL"),
        ("ALTER TABLE t ADD COLUMN _weight INT", SqlError, "reserved"),
        ("ALTER TABLE t ADD COLUMN x ARRAY<INT> DEFAULT array()", Unsupported, "only NULL can be the default"),
        ("ALTER TABLE t DROP COLUMN id", SqlError, "'id' is a key column of table 't' and cannot be dropped"),
        ("ALTER TABLE t DROP COLUMN x", UnknownName, r"no column of table 't' named 'x' \(known: id, a, s\)"),
        ("ALTER TABLE t RENAME COLUMN x TO y", UnknownName, "named 'x'"),
        ("ALTER TABLE t RENAME COLUMN a TO S", SqlError, "already has a column named 'S'"),
        ("ALTER TABLE t RENAME COLUMN a TO _weight", SqlError, "reserved"),
        ("ALTER TABLE t RENAME TO other", NameTaken, "table 'other' already exists"),
        ("ALTER TABLE nowhere ADD COLUMN x INT", UnknownName, "no table named 'nowhere'"),
        ("ALTER VIEW nowhere RENAME TO x", UnknownName, "no view named 'nowhere'"),
        ("ALTER TABLE t ALTER COLUMN a TYPE BIGINT", Unsupported, "write ADD COLUMN, DROP COLUMN"),
        ("ALTER VIEW v AS SELECT 1", Unsupported, "CREATE OR REPLACE"),
        ("CREATE TABLE x (id INT DEFAULT 1 PRIMARY KEY)", Unsupported, "DEFAULT on key column 'id'"),
        ("SHOW CREATE TABLE nowhere", UnknownName, "no table named 'nowhere'"),
    ],
)
def test_what_is_refused_changes_nothing(
    db: tr.Database, statement: str, error: type[TailraceError], text: str
) -> None:
    db.sql("CREATE TABLE other (id INT PRIMARY KEY)")
    before, version = rows(db), inside(db).catalog.version
    with pytest.raises(error, match=text):
        db.sql(statement)
    assert (rows(db), inside(db).catalog.version) == (before, version)


def test_what_exists_already_or_not_at_all_may_be_skipped(db: tr.Database) -> None:
    version = inside(db).catalog.version
    db.sql("ALTER TABLE t ADD COLUMN IF NOT EXISTS A BIGINT; ALTER TABLE t DROP COLUMN IF EXISTS x")
    db.sql("ALTER TABLE t RENAME COLUMN a TO a; ALTER TABLE t RENAME TO t")
    assert inside(db).catalog.version == version
    db.sql("ALTER TABLE t ADD COLUMNS IF NOT EXISTS (a INT, b INT)")
    assert [c.name for c in db.table("t").columns] == ["id", "a", "s", "b"]


def test_a_write_that_was_prepared_before_is_adapted(db: tr.Database) -> None:
    """As a writer in another process whose ALTER came between: it knows the old columns."""
    store, old = inside(db).store, inside(db).catalog.table("t")
    row = pa.RecordBatch.from_pylist([{"id": 1, "a": 99, "s": "late"}], schema=old.schema)
    db.sql("ALTER TABLE t ADD COLUMN c INT DEFAULT 5")
    with pytest.raises(TableAltered, match="'t' were changed by another process"):
        store.write([Change(old, "put", row)])
    assert rows(db)[1] == {"id": 1, "a": 10, "s": "s1", "c": 5}


def test_a_transaction_across_changes_is_written_as_if_it_came_before_them(db: tr.Database) -> None:
    with db.transaction() as t:
        table = t.table("t")
        table.put({"id": 1, "a": 99, "s": "put"})
        table.update({"id": 2, "s": "updated"})
        table.delete(3)
        db.sql("ALTER TABLE t ADD COLUMN c INT DEFAULT 5; ALTER TABLE t RENAME COLUMN a TO b")
        db.sql("ALTER TABLE t DROP COLUMN s; ALTER TABLE t RENAME COLUMN id TO key; ALTER TABLE t RENAME TO u")
        table.put({"key": 8, "b": 1})
    assert sorted(db.table("u").scan().to_pylist(), key=lambda r: r["key"]) == [
        {"key": 0, "b": 0, "c": 5},
        {"key": 1, "b": 99, "c": 5},
        {"key": 2, "b": 20, "c": 5},
        {"key": 8, "b": 1, "c": 5},
    ]
    lost = db.transaction()
    lost.__enter__().table("u").delete(0)
    db.sql("DROP TABLE u")
    with pytest.raises(UnknownName, match="it was dropped"):
        lost.__exit__(None, None, None)
    assert db.audit().ok


WRITER = """
import sys, tailrace as tr
with tr.open(sys.argv[1], create=False) as db:
    table, first = db.table("t"), int(sys.argv[2])
    print("ready", flush=True)
    sys.stdin.readline()
    for i in range(150):
        with db.transaction() as t:
            t.table("t").put({"id": first + i, "a": i})
            t.table("t").put({"id": first + i + 1000, "a": -i})
        table.update({"id": first + i, "a": i + 1})
"""


def test_processes_write_while_columns_come_and_go(db: tr.Database) -> None:
    command = [sys.executable, "-c", WRITER, str(db.path)]
    writers = [
        subprocess.Popen([*command, str(first)], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
        for first in (10_000, 20_000)
    ]
    for writer in writers:
        assert writer.stdout is not None
        assert writer.stdout.readline() == "ready\n"
    for writer in writers:
        assert writer.stdin is not None
        writer.stdin.write("go\n")
        writer.stdin.flush()
    changes = 0
    while any(writer.poll() is None for writer in writers):
        db.sql(f"ALTER TABLE t ADD COLUMN c{changes} STRING DEFAULT 'd{changes}'; ALTER TABLE t RENAME COLUMN s TO s2")
        db.sql("ALTER TABLE t RENAME COLUMN s2 TO s" + (f"; ALTER TABLE t DROP COLUMN c{changes}" if changes else ""))
        changes += 1
    assert [writer.wait() for writer in writers] == [0, 0]
    for writer in writers:
        assert writer.stdin is not None
        assert writer.stdout is not None
        writer.stdin.close()
        writer.stdout.close()
    assert changes > 1
    written = {row["id"]: row for row in rows(db) if row["id"] >= 10_000}
    assert len(written) == 600
    for first in (10_000, 20_000):
        assert [written[first + i] for i in range(150)] == [
            {"id": first + i, "a": i + 1, "s": None, "c0": "d0"} for i in range(150)
        ]
    assert db.audit().ok


def test_files_are_loaded_into_a_changed_table(db: tr.Database, tmp_path: Path) -> None:
    db.sql("ALTER TABLE t ADD COLUMN c INT DEFAULT 5; ALTER TABLE t DROP COLUMN a; ALTER TABLE t ADD COLUMN a DOUBLE")
    (tmp_path / "rows.csv").write_text("id,a,s\n1,0.5,one\n11,,\n")
    (tmp_path / "rows.jsonl").write_text('{"id": 12, "s": "json", "c": null}\n')
    pq.write_table(pa.table({"ID": [13], "c": [6]}), tmp_path / "rows.parquet")
    for name in ("rows.csv", "rows.jsonl", "rows.parquet"):
        load(db.table("t"), [tmp_path / name])
    loaded = {row["id"]: (row["s"], row["c"], row["a"]) for row in rows(db)}
    assert loaded[1] == ("one", 5, 0.5)
    assert loaded[2] == ("s2", 5, None)
    assert loaded[11][1:] == (5, None)
    assert loaded[12] == ("json", None, None)
    assert loaded[13] == (None, 6, None)


def test_show_create_table_recreates_it(db: tr.Database) -> None:
    db.sql(
        "CREATE TABLE `Odd name` (`primary` INT, `a``b` STRING DEFAULT 'it''s \\\\ \"x\"',"
        " `select` DOUBLE DEFAULT -1.5e10,"
        " d DATE DEFAULT DATE '2026-01-31', at TIMESTAMP DEFAULT '2026-01-31 12:00:00', raw BINARY DEFAULT X'00ff',"
        " ok BOOLEAN DEFAULT TRUE, n DECIMAL(20,3) DEFAULT 1.5, PRIMARY KEY (`a``b2`, `primary`), `a``b2` STRING)"
    )
    db.sql("ALTER TABLE `odd name` DROP COLUMN d; ALTER TABLE `odd name` ADD COLUMN `1` INT DEFAULT 7")
    db.sql(
        "ALTER TABLE `odd name` ADD COLUMNS (deep ARRAY<STRUCT<A: INT, b: MAP<STRING, INT>>>, i INTERVAL DAY TO SECOND)"
    )
    text = shown(db, "TABLE `odd name`")
    db.sql(text.replace("`odd name`", "twin"))
    assert shown(db, "TABLE twin") == text.replace("`odd name`", "twin")
    for name in ("odd name", "twin"):
        db.table(name).put({"primary": 1, "a`b2": "k"})
    one, two = (db.table(name).scan() for name in ("odd name", "twin"))
    assert one.equals(two)
    assert one.column("a`b").to_pylist() == ['it\'s \\ "x"']
    assert shown(db, "TABLE t") == "CREATE TABLE t (\n  id INT,\n  a INT,\n  s STRING,\n  PRIMARY KEY (id)\n)"


@pytest.mark.parametrize("point", ["catalog.change", "catalog.changed"])
def test_a_process_that_dies_in_alter_changes_all_or_nothing(db: tr.Database, tmp_path: Path, point: str) -> None:
    faults = tmp_path / "faults"
    faults.mkdir()
    script = "import sys, tailrace; tailrace.open(sys.argv[1]).sql(sys.argv[2])"
    for statement, columns in (
        ("ALTER TABLE t ADD COLUMN c INT DEFAULT 5", ["id", "a", "s", "c"]),
        ("ALTER TABLE t RENAME COLUMN a TO b", ["id", "b", "s"]),
        ("ALTER TABLE t DROP COLUMN s", ["id", "a"]),
    ):
        db.sql("DROP TABLE t; CREATE TABLE t (id INT PRIMARY KEY, a INT, s STRING)")
        db.table("t").put({"id": 1, "a": 1, "s": "x"})
        (faults / point).write_text("kill@1")
        command = [sys.executable, "-c", script, str(db.path), statement]
        env = {**os.environ, "TAILRACE_FAULTS": str(faults)}
        assert subprocess.run(command, env=env).returncode == -9
        expected = columns if point == "catalog.changed" else ["id", "a", "s"]
        assert [c.name for c in db.table("t").columns] == expected
        assert list(rows(db)[0]) == expected
        db.table("t").put({"id": 2})
        assert db.audit().ok


def test_rows_expire_by_a_renamed_column(db: tr.Database) -> None:
    db.sql("CREATE TABLE e (id INT PRIMARY KEY, gone INT, at DATE) WITH (ttl = '2 days', ttl_column = 'at')")
    db.table("e").put_many([{"id": 1, "gone": 1, "at": "2026-01-01"}, {"id": 2, "gone": 2, "at": "2026-01-09"}])
    with pytest.raises(SqlError, match="'at' is the ttl_column of table 'e' and cannot be dropped"):
        db.sql("ALTER TABLE e DROP COLUMN at")
    db.sql("ALTER TABLE e ADD COLUMN more INT DEFAULT 5; ALTER TABLE e DROP COLUMN gone")
    db.sql("ALTER TABLE e RENAME COLUMN at TO `it's day`; ALTER TABLE e RENAME TO f")
    text = shown(db, "TABLE f")
    assert text.endswith(r"WITH (ttl = '2 days', ttl_column = 'it\'s day')")
    db.sql(text.replace("TABLE f", "TABLE g"))
    db.table("f").put({"id": 3, "it's day": "2026-01-02"})
    now = int(datetime(2026, 1, 10, tzinfo=UTC).timestamp() * 1_000_000)
    expired = ExpiredRows(inside(db).store, inside(db).catalog, lambda: now)
    while expired.step():
        pass
    assert rows(db, "f") == [{"id": 2, "it's day": date(2026, 1, 9), "more": 5}]


def test_an_embedded_store_has_no_tables_of_hbase(db: tr.Database) -> None:
    text = "CREATE TABLE h (id INT PRIMARY KEY) WITH (hbase.table = 'h', hbase.columns = 'id=:key')"
    with pytest.raises(Unsupported, match=r"option hbase\.table is not supported: it is an option of stores on HBase"):
        db.sql(text)
    assert db.tables() == ["t"]
