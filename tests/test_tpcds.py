"""Three of the largest queries of TPC-DS as views: their results, and how much work it is to create them."""

from __future__ import annotations

import random
from collections import Counter
from collections.abc import Callable, Iterator
from decimal import Decimal
from pathlib import Path
from typing import Any
from unittest.mock import patch

import pytest
from pyspark.sql import SparkSession

import tailrace as tr
from tailrace.database import define
from tailrace.database.inside import inside
from tailrace.plan.nodes import walk
from tailrace.plan.rewrite import rewriter
from tailrace.spark.stages import Stages
from tailrace.spark.typer import SparkTyper
from tailrace_fuzz.model import interpreted

FOLDER = Path(__file__).parent / "fixtures" / "tpcds"
QUERIES = ("q4", "q14a", "q64")
FACTS = {"store_sales": 150, "store_returns": 150, "catalog_sales": 150, "catalog_returns": 150, "web_sales": 150}
DIMENSION = 8


@pytest.fixture(scope="module")
def db(tmp_path_factory: pytest.TempPathFactory, spark: SparkSession) -> Iterator[tr.Database]:
    with tr.open(
        tmp_path_factory.mktemp("tpcds") / "store", create=True, spark=spark, durable=False, map_size=1 << 30
    ) as database:
        for statement in (FOLDER / "schema.sql").read_text().split(";"):
            if statement.strip():
                database.sql(statement)
        rng = random.Random(4)
        for name in database.tables():
            database.table(name).put_many(rows(database, name, rng))
        yield database


def rows(db: tr.Database, name: str, rng: random.Random) -> list[dict[str, Any]]:
    """Rows whose references exist and whose values are few, so that the queries find something."""
    table = db.table(name)

    def value(column: str, kind: str, number: int) -> Any:
        if column in table.key:
            return number % DIMENSION if column.endswith("_item_sk") and name != "item" else number
        known = {"d_year": 1999 + number % 4, "d_moy": 11, "i_color": "purple", "c_customer_id": f"customer {number}"}
        if column in known:
            return known[column]
        if kind == "string":
            return f"{column} {number % 2}"
        if kind.startswith("decimal"):
            is_low = column.startswith("cr_") or "wholesale" in column or "discount" in column
            return Decimal(rng.randrange(100, 500) if is_low else rng.randrange(6600, 7400)) / 100
        return rng.randrange(DIMENSION)

    count = FACTS.get(name, DIMENSION)
    return [{c.name: value(c.name, c.type, number) for c in table.columns} for number in range(count)]


def counted(monkeypatch: pytest.MonkeyPatch, owner: Any, name: str, counts: Counter[str]) -> None:
    original: Callable[..., Any] = getattr(owner, name)

    def call(*arguments: Any, **options: Any) -> Any:
        counts[name] += 1
        return original(*arguments, **options)

    monkeypatch.setattr(owner, name, call)


def assert_right(db: tr.Database, query: str) -> None:
    with patch("tailrace.verify.comparison.session", interpreted):  # compiling the queries would take longest
        assert db.verify(query).ok


def create(db: tr.Database, query: str) -> None:
    text = (FOLDER / f"{query}.sql").read_text()
    db.sql(f"CREATE MATERIALIZED VIEW {query} WITH (refresh = 'incremental') AS {text}")


@pytest.mark.parametrize("query", QUERIES)
def test_creating_a_large_view_over_small_tables(
    db: tr.Database, query: str, monkeypatch: pytest.MonkeyPatch, told: Callable[[str], None]
) -> None:
    counts: Counter[str] = Counter()
    counted(monkeypatch, SparkTyper, "_empty_frame", counts)  # once for each analysis by Spark of some expressions
    counted(monkeypatch, define.ViewDefiner, "analyze", counts)
    counted(monkeypatch, Stages, "to_frame", counts)
    first, *others = rewriter.REWRITES

    def push_filters(*given: Any) -> Any:
        counts["rounds"] += 1
        return first(*given)

    monkeypatch.setattr(rewriter, "REWRITES", (push_filters, *others))
    create(db, query)
    view = inside(db).catalog.views[query]
    assert view.root is not None
    nodes = list(walk(view.root))
    counts["nodes"], counts["distinct nodes"] = len(nodes), len({node.fingerprint for node in nodes})
    told(", ".join(f"{name}: {count}" for name, count in counts.items()))
    assert counts["_empty_frame"] <= 4
    assert counts["analyze"] == 1
    assert counts["rounds"] <= 3
    assert counts["nodes"] <= 250
    assert counts["distinct nodes"] <= 100
    assert counts["to_frame"] <= 2  # a frame for each operator would take ten times as long
    assert db.view(query).scan().num_rows > 0
    assert_right(db, query)


def test_views_follow_their_tables(db: tr.Database) -> None:
    for query in set(QUERIES) - set(db.views()):  # another worker may have run the test that creates it
        create(db, query)
    rng = random.Random(5)
    before = {query: db.view(query).scan() for query in QUERIES}
    for name in ("store_sales", "catalog_sales", "web_sales", "item"):
        db.table(name).put_many(rows(db, name, rng)[::2])
    db.table("store_returns").delete((0, 0))
    db.refresh()
    for query in QUERIES:
        assert_right(db, query)
    assert any(db.view(query).scan() != before[query] for query in QUERIES)
