"""`put_many` takes the rows of a Spark DataFrame: as Arrow batches, checked, in one transaction."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import timedelta
from decimal import Decimal
from pathlib import Path
from typing import Any

import pytest

import tailrace as tr
from tailrace.errors import BadValue, DataError, NullKey, UnknownColumn, Unsupported


@pytest.fixture
def table(tmp_path: Path, spark: Any) -> Iterator[tr.Table]:
    with tr.open(tmp_path / "s", create=True, spark=spark, durable=False) as db:
        db.sql("""CREATE TABLE t (id BIGINT PRIMARY KEY, p DECIMAL(8,2), s STRUCT<x: INT, y: STRING>, small TINYINT,
                                  m MAP<STRING, ARRAY<INT>>, i INTERVAL DAY TO SECOND, at TIMESTAMP)""")
        yield db.table("t")


def test_rows_of_many_partitions_are_one_transaction(table: tr.Table, spark: Any) -> None:
    spark.conf.set("spark.sql.execution.arrow.maxRecordsPerBatch", "7")
    try:
        frame = spark.range(0, 100, 1, 5).selectExpr(
            "ID", "CAST(id AS DECIMAL(5,1)) AS p", "struct(CAST(id AS STRING) AS Y, CAST(id AS INT) AS x) AS s",
            "map('k', array(CAST(id AS INT), NULL)) AS m", "id * INTERVAL '1' SECOND AS i",
            "timestamp_seconds(id) AS at", "NULL AS small",
        )  # fmt: skip
        written = table.put_many(frame)
    finally:
        spark.conf.set("spark.sql.execution.arrow.maxRecordsPerBatch", "100000")
    assert (written.transaction, written.operations) == (1, 100)
    row = table.get(42)
    assert row is not None
    assert row["at"].timestamp() == 42
    assert {name: row[name] for name in ("p", "s", "m", "i", "small")} == {
        "p": Decimal(42), "s": {"x": 42, "y": "42"}, "m": [("k", [42, None])],
        "i": timedelta(seconds=42), "small": None,
    }  # fmt: skip


def test_a_bad_row_is_named_and_nothing_is_written(table: tr.Table, spark: Any) -> None:
    rows = spark.range(0, 200, 1, 1)
    with pytest.raises(BadValue, match="row 129, column 'small': 128 does not fit TINYINT"):
        table.put_many(rows.selectExpr("id", "id AS small"))
    with pytest.raises(BadValue, match=r"row 201, column 's.x': 2147483648 does not fit INT"):
        table.put_many(rows.selectExpr("id", "struct(1L AS x) AS s").union(
            spark.sql("SELECT 1L, struct(2147483648L)").coalesce(1)))  # fmt: skip
    with pytest.raises(NullKey, match="row 1: key column 'id'"):
        table.put_many(rows.selectExpr("CAST(NULL AS BIGINT) AS id"))
    with pytest.raises(DataError, match=r"Spark cannot compute the rows: .*no!"):
        table.put_many(rows.selectExpr("id", "raise_error('no!') AS p"))
    assert table.scan().num_rows == 0


def test_names_and_types_are_checked_before_spark_computes_anything(table: tr.Table, spark: Any) -> None:
    failing = spark.range(3).selectExpr("id", "raise_error('computed') AS colour")
    with pytest.raises(UnknownColumn, match="no column 'colour'"):
        table.put_many(failing)
    with pytest.raises(Unsupported, match="type INTERVAL YEAR is not supported"):
        table.put_many(spark.sql("SELECT 1L AS id, INTERVAL '1' YEAR AS i"))


def test_an_empty_frame_and_a_transaction(table: tr.Table, spark: Any, tmp_path: Path) -> None:
    assert table.put_many(spark.range(0)).operations == 0
    with tr.open(tmp_path / "s2", create=True, spark=spark, durable=False) as db:
        db.sql("CREATE TABLE t (id BIGINT PRIMARY KEY)")
        with db.transaction() as transaction:
            transaction.table("t").put_many(spark.range(5))
            transaction.table("t").delete(3)
        assert sorted(row["id"] for row in db.table("t").scan().to_pylist()) == [0, 1, 2, 4]
