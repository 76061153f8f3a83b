"""Comparisons with texts that can never be cast are refused, and no others. Spark's own casts are the oracle."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

import tailrace as tr
from tailrace.errors import NeverTrue
from tailrace.plan.build.impossible_literals import _is_impossible

TEXTS = [
    *(
        "abc",
        "",
        " ",
        "N/A",
        "-",
        "+",
        ".",
        "-.",
        "+.",
        "..",
        "e5",
        "1e",
        ".e1",
        "12abc",
        "1_000",
        "1,000",
        "0x",
        "--1",
    ),
    *("7", " 7 ", "\t7\n", "-7", "+7", "7.", ".7", "7.5", "1e5", "1E+5", "-1e-5", "1d", "1f", "1.5D", "0x10", "0x1p3"),
    *(
        "inf",
        "-inf",
        "+Infinity",
        "NaN",
        "-nan",
        "infinit",
        "\u0667",
        "\u00a07",
        "99999999999999999999",
        "1e999",
        "null",
    ),
    *("2026", "2026-1", "2026-01-31", "2026-01-31 12:00:00", "T12:30", "12:30", "2026-01-31T12:00:00Z", "-0044-03-15"),
    *(
        "epoch",
        "now",
        "today",
        "Yesterday",
        "tomorrow",
        "monday",
        "2026-13-01",
        "\u0662\u0660\u0662\u0666",
        "true",
        "0xfg",
    ),
]
TYPES = ["tinyint", "int", "bigint", "float", "double", "decimal(10,2)", "date", "timestamp", "timestamp_ntz"]


def test_spark_casts_every_refused_text_to_null(spark: Any) -> None:
    texts = spark.createDataFrame([(text,) for text in TEXTS], "s string")
    # A string is compared with a decimal as double.
    casts = [f"CAST(s AS {'double' if kind.startswith('decimal') else kind}) IS NOT NULL" for kind in TYPES]
    rows = texts.selectExpr("s", *casts).collect()
    wrong = [
        (row[0], kind)
        for row in rows
        for kind, fits in zip(TYPES, row[1:], strict=True)
        if fits and _is_impossible(row[0], kind)
    ]
    assert wrong == []
    refused = {(text, kind) for text in TEXTS for kind in TYPES if _is_impossible(text, kind)}
    assert {("abc", "int"), ("", "decimal(10,2)"), ("12abc", "double"), ("N/A", "date"), ("", "timestamp")} <= refused


@pytest.fixture
def db(tmp_path: Path, spark: Any) -> Iterator[tr.Database]:
    with tr.open(tmp_path / "s", create=True, spark=spark, map_size=1 << 30, durable=False) as database:
        database.sql("CREATE TABLE t (id INT PRIMARY KEY, price DECIMAL(10,2), d DATE, s STRING, b BOOLEAN)")
        yield database


@pytest.mark.parametrize("policy", ["incremental", "auto", "full"])
@pytest.mark.parametrize(
    ("condition", "place"),
    [
        ("price > 'abc'", (2, 15)),
        ("s = 'x' OR ('' <> price)", (2, 19)),
        ("d BETWEEN '2026-01-01' AND 'soon'", (2, 34)),
        ("NOT id = 'no.1'", (2, 16)),
    ],
)
def test_refused_with_the_place_of_the_literal(
    db: tr.Database, condition: str, place: tuple[int, int], policy: str
) -> None:
    sql = f"CREATE MATERIALIZED VIEW v WITH (refresh = '{policy}') AS SELECT id FROM t\nWHERE {condition}"
    with pytest.raises(NeverTrue, match=r"is compared with the text '.*', which is no .*never true") as caught:
        db.sql(sql)
    assert (caught.value.line, caught.value.column) == place
    assert db.views() == []
    db.query(f"SELECT id FROM t WHERE {condition}")


def test_accepted(db: tr.Database) -> None:
    conditions = [
        *("price > '9.5'", "price > ' 9e1 '", "id = '7'", "d >= '2026'", "s = 'abc'", "b = 'abc'", "price <=> 'abc'"),
        *("id IN (1, 'abc')", "CAST(price AS STRING) <> 'abc'", "price > CAST('abc' AS INT)", "d > '2026-02-30'"),
    ]
    views = (f"CREATE MATERIALIZED VIEW v{i} AS SELECT id FROM t WHERE {c}" for i, c in enumerate(conditions))
    db.sql(";".join(views))
    db.table("t").put_many([{"id": 1, "price": "99", "d": "2026-05-01", "s": "abc", "b": True}, {"id": 7}])
    db.refresh()
    for name in db.views():
        assert db.verify(name).ok, name
