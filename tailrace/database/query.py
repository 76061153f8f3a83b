"""Answers SELECT statements over tables and views with Spark, at one cut."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pyarrow as pa
from sqlglot import exp

from tailrace.catalog.catalog import Relations
from tailrace.plan.sql import dialect
from tailrace.plan.sql.statements import only_query
from tailrace.spark.failures import translated
from tailrace.spark.frames import table_rows, view_frame
from tailrace.spark.session import session
from tailrace.store.base import Cut, Store
from tailrace.types import quoted

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


def answer_query(
    spark: SparkSession, store: Store, relations: Relations, text: str, names: set[str], epoch: int, cut: Cut
) -> pa.Table:
    """The result of a SELECT that reads the relations `names`: tables at the cut, views at the epoch."""
    with translated(lambda: spark):
        fresh_session = session(spark)
        for name in names:
            if name in relations.views:
                rows = view_frame(fresh_session, store, relations.views[name], epoch)
            elif name in relations.tables:
                rows = table_rows(fresh_session, store, relations.tables[name], cut)
            else:
                continue  # the name of a CTE, or an unknown name, which Spark reports
            rows.createOrReplaceTempView(quoted(name))
        return fresh_session.sql(text).toArrow()


def relation_names(text: str) -> set[str]:
    """The names that a query reads: of tables, views, CTEs, or of nothing. Refuses what is not a query."""
    return {table.name.lower() for part in only_query(dialect.parse(text)) for table in part.find_all(exp.Table)}
