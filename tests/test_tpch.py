"""All 22 queries of TPC-H as views of one store, equal to Spark's answers to the same texts after every epoch."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pyarrow as pa
import pytest
from pyspark.sql import SparkSession

import tailrace as tr
from tailrace.errors import SqlError
from tailrace_bench.tpch.changes import Changes
from tailrace_bench.tpch.data import TABLES, generate, load
from tailrace_bench.tpch.oracle import Oracle, difference
from tailrace_bench.tpch.queries import Query, queries

SCALE = 0.01


class Compared:
    """A store with the tables, the views that could be made, and Spark's answers to compare them with."""

    def __init__(self, db: tr.Database, files: dict[str, Path], place: Path, scale: float) -> None:
        self.db, self.changes = db, Changes(db, files, seed=22, aimed=0.3)
        self.refused: dict[str, str] = {}
        self.queries: list[Query] = []
        for query in queries(scale):
            try:
                query.create(db)
                self.queries.append(query)
            except SqlError as error:
                self.refused[query.name] = str(error)
        self._oracle = Oracle(db.spark, place, adaptive=False)
        self._answers: dict[str, pa.Table] = {}
        self.moved: set[str] = set()

    def compare(self, tables: set[str]) -> list[str]:
        """Differences, after these tables were changed."""
        self._oracle.snapshot(self.db, tables)
        asked = [q for q in self.queries if q.tables & tables]
        with ThreadPoolExecutor(2) as threads:
            for query, answer in zip(asked, threads.map(self._oracle.answer, asked), strict=True):
                if self._answers.get(query.name) not in (None, answer):
                    self.moved.add(query.name)
                self._answers[query.name] = answer
        found = (difference(q, self.db.view(q.name).scan(), self._answers[q.name]) for q in self.queries)
        return [d for d in found if d]


@pytest.fixture(scope="module")
def tpch(tmp_path_factory: pytest.TempPathFactory, spark: SparkSession) -> Iterator[Compared]:
    place = tmp_path_factory.mktemp("tpch")
    files = generate(SCALE, place / "data")
    with tr.open(place / "store", create=True, durable=False, spark=spark) as db:
        load(db, files)
        yield Compared(db, files, place, SCALE)


def test_every_query_can_be_maintained(tpch: Compared) -> None:
    assert tpch.refused == {}


def test_views_are_built_right(tpch: Compared) -> None:
    assert tpch.compare(set(TABLES)) == []


def refunds(changes: Changes) -> None:
    changes.lineitems(300)
    changes.priorities(200)


def people(changes: Changes) -> None:
    changes.customers(150)
    changes.suppliers(40)


def goods(changes: Changes) -> None:
    changes.parts(100)
    changes.partsupp(400)


def everything(changes: Changes) -> None:
    changes.rf1(60)
    people(changes)
    goods(changes)
    refunds(changes)
    changes.rf2(60)


EPOCHS: list[tuple[Callable[[Changes], object], set[str]]] = [
    (lambda changes: changes.rf1(150), {"orders", "lineitem"}),
    (lambda changes: changes.rf2(150), {"orders", "lineitem"}),
    (refunds, {"orders", "lineitem"}),
    (people, {"customer", "supplier"}),
    (goods, {"part", "partsupp"}),
    (everything, set(TABLES) - {"nation", "region"}),
]


@pytest.mark.parametrize(("change", "tables"), EPOCHS, ids=["rf1", "rf2", "refunds", "people", "goods", "everything"])
def test_views_are_right_after_an_epoch(tpch: Compared, change: Callable[[Changes], object], tables: set[str]) -> None:
    change(tpch.changes)
    tpch.db.refresh()
    assert tpch.compare(tables) == []


def test_every_answer_moved_and_none_is_empty(tpch: Compared) -> None:
    assert [q.name for q in tpch.queries if q.name not in tpch.moved] == []
    assert [q.name for q in tpch.queries if not tpch.db.view(q.name).scan().num_rows] == []
