"""Answers SELECT statements over tables and views with Spark, at one pinned epoch."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pyarrow as pa
from sqlglot import exp

from tailrace.catalog.catalog import Relations
from tailrace.errors import SqlError
from tailrace.plan.sql import dialect
from tailrace.plan.sql.statements import only_query
from tailrace.spark.failures import FAILURES, reason
from tailrace.spark.frames import table_rows, view_frame
from tailrace.spark.session import session
from tailrace.store.base import Store
from tailrace.store.pins import Pin
from tailrace.types import quoted

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


def answer_query(spark: SparkSession, store: Store, relations: Relations, text: str, pin: Pin) -> pa.Table:
    """The result of a SELECT. All tables and views are read at the pinned epoch."""
    fresh_session = session(spark)
    for name in _relation_names(text):
        if name in relations.views:
            rows = view_frame(fresh_session, store, relations.views[name], pin.epoch)
        elif name in relations.tables:
            rows = table_rows(fresh_session, store, relations.tables[name], pin.cut)
        else:
            continue  # the name of a CTE, or an unknown name, which Spark reports
        rows.createOrReplaceTempView(quoted(name))
    try:
        return fresh_session.sql(text).toArrow()
    except FAILURES as error:
        raise SqlError(message=reason(error)) from None


def _relation_names(text: str) -> set[str]:
    return {table.name.lower() for part in only_query(dialect.parse(text)) for table in part.find_all(exp.Table)}
