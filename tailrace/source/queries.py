"""A view's SQL, run by Spark as it stands over the tables at a cut."""

from __future__ import annotations

from dataclasses import dataclass

from pyspark.sql import DataFrame, SparkSession

from tailrace import types
from tailrace.source.frames import table_rows
from tailrace.store.base import Cut, Store, TableDef


@dataclass(frozen=True)
class Query:
    """SQL, and what its names stand for: tables, and views whose own SQL takes their place."""

    sql: str
    reads: tuple[tuple[str, TableDef | Query], ...]

    @property
    def tables(self) -> dict[int, TableDef]:
        """All tables under it, by id."""
        found: dict[int, TableDef] = {}
        for _, source in self.reads:
            found.update(source.tables if isinstance(source, Query) else {source.id: source})
        return found


def query_rows(spark: SparkSession, store: Store, query: Query, cut: Cut) -> DataFrame:
    """The answer over the tables at a cut. `spark` is a session of its own: its temporary views are replaced."""
    for name, source in query.reads:
        if isinstance(source, Query):
            found = query_rows(spark, store, source, cut)
        else:
            found = table_rows(spark, store.path, store.nodes, source, cut)
        found.createOrReplaceTempView(types.quoted(name))
    return spark.sql(query.sql)
