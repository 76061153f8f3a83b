"""Queries: any SELECT over tables and views, run by Spark at one pinned epoch."""

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


def answer(spark: SparkSession, store: Store, relations: Relations, text: str, pin: Pin) -> pa.Table:
    """The rows of a SELECT over tables and views at a pinned epoch."""
    fresh = session(spark)
    for name in _mentioned(text):
        if name in relations.views:
            found = view_frame(fresh, store, relations.views[name], pin.epoch)
        elif name in relations.tables:
            found = table_rows(fresh, store, relations.tables[name], pin.cut)
        else:
            continue
        found.createOrReplaceTempView(quoted(name))
    try:
        return fresh.sql(text).toArrow()
    except FAILURES as error:
        raise SqlError(message=reason(error)) from None


def _mentioned(text: str) -> set[str]:
    return {table.name.lower() for part in only_query(dialect.parse(text)) for table in part.find_all(exp.Table)}
