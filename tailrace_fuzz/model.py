"""A model of the tables in plain Python, and the comparison of views with Spark's answer over that model."""

from __future__ import annotations

import math
import re
from collections import Counter
from collections.abc import Container, Iterable
from datetime import UTC, datetime, timedelta
from functools import cached_property
from typing import Any

import pyarrow as pa
from pyspark.sql import SparkSession

import tailrace as tr
from tailrace.database.inside import inside
from tailrace.spark.session import session
from tailrace.store.commits import read_committed
from tailrace.types import schema

Row = dict[str, Any]


# Rows are few and plans many: compiling each plan would take most of the time.
UNCOMPILED = {"spark.sql.codegen.wholeStage": "false", "spark.sql.codegen.factoryMode": "NO_CODEGEN"}


def interpreted(spark: SparkSession) -> SparkSession:
    """A session for the right answers: it compiles nothing and shuffles into one partition."""
    made = session(spark)
    for name, value in {**UNCOMPILED, "spark.sql.shuffle.partitions": "1"}.items():
        made.conf.set(name, value)
    return made


class Model:
    """A database and the expected contents of its tables. Writes go to both."""

    def __init__(self, db: tr.Database) -> None:
        self.db = db
        self.tables: dict[str, dict[Any, Row]] = {name: {} for name in db.tables()}

    def put(self, name: str, rows: list[Row]) -> None:
        table = self.db.table(name)
        table.put_many(rows)
        for row in rows:
            full = {c.name: row.get(c.name) for c in table.columns}
            self.tables[name][tuple(full[k] for k in table.key)] = full

    def update(self, name: str, row: Row) -> None:
        table = self.db.table(name)
        table.update(row)
        self.tables[name][tuple(row[k] for k in table.key)].update(row)

    def delete(self, name: str, keys: list[Any]) -> None:
        self.db.table(name).delete_many(keys)
        for key in keys:
            self.tables[name].pop(key if isinstance(key, tuple) else (key,), None)

    def arrow(self, name: str) -> pa.Table:
        return pa.Table.from_pylist(list(self.tables[name].values()), schema=schema(self.db.table(name).columns))

    def show(self, spark: SparkSession, names: Iterable[str]) -> None:
        """Registers the expected contents of these tables as temporary views of a Spark session."""
        for name in names:
            ddl = ", ".join(f"`{c.name}` {c.type}" for c in self.db.table(name).columns)
            spark.createDataFrame(self.arrow(name), schema=ddl).createOrReplaceTempView(name)

    @cached_property
    def _spark(self) -> SparkSession:
        return interpreted(self.db.spark)

    def check(self) -> None:
        """Asserts that every table equals the model and every view equals Spark's answer over the model."""
        spark = self._spark
        for name in self.tables:
            assert multiset(self.db.table(name).scan()) == multiset(self.arrow(name)), f"table {name}"
        self.show(spark, self.tables)
        pending = list(self.db.views())
        while pending:  # a view is checked after the views that it reads
            name = pending.pop(0)
            view = self.db.view(name)
            if any(used in pending for used in inside(self.db).catalog.view(name).uses):
                pending.append(name)
                continue
            answer = spark.sql(fix_time(view.sql, read_committed(inside(self.db).store).time))
            answer.createOrReplaceTempView(name)
            assert_same(view.scan(), answer.toArrow(), f"view {name}: {view.sql}")


def fix_time(sql: str, time: int) -> str:
    """The query with `now()`, `current_timestamp()`, `localtimestamp()` and `current_date()` as literals."""
    moment = datetime.fromtimestamp(0, UTC) + timedelta(microseconds=time)
    literals = {
        "now": f"TIMESTAMP '{moment:%Y-%m-%d %H:%M:%S.%f}Z'",
        "current_timestamp": f"TIMESTAMP '{moment:%Y-%m-%d %H:%M:%S.%f}Z'",
        "localtimestamp": f"TIMESTAMP_NTZ '{moment:%Y-%m-%d %H:%M:%S.%f}'",
        "current_date": f"DATE '{moment:%Y-%m-%d}'",
    }
    return re.sub(rf"\b({'|'.join(literals)})\(\)", lambda call: literals[call[1].lower()], sql, flags=re.IGNORECASE)


def plain(value: Any) -> Any:
    """A hashable value in which NaN equals NaN and -0.0 equals 0.0."""
    if isinstance(value, float):
        return "nan" if math.isnan(value) else value + 0.0
    if isinstance(value, list | tuple):
        return tuple(plain(v) for v in value)
    if isinstance(value, dict):
        return tuple(sorted((k, plain(v)) for k, v in value.items()))
    return value


def multiset(table: pa.Table) -> Counter[Any]:
    return Counter(tuple(plain(v) for v in row.values()) for row in table.to_pylist())


def alike(a: Any, b: Any, tolerance: float = 1e-9, near_zero: float = 0.0) -> bool:
    if isinstance(a, float) and isinstance(b, float):
        return a == b or abs(a - b) <= max(tolerance * max(abs(a), abs(b)), near_zero)
    return bool(a == b)


def differences(
    actual: pa.Table, expected: pa.Table, loose: Container[int] | None = None
) -> tuple[Counter[Any], Counter[Any]]:
    """Missing and extra rows.

    Sums of doubles depend on the order, so doubles are compared with a relative tolerance of 1e-9. If `loose` is
    given, only the columns at these positions have a tolerance: 1e-6, relative or absolute.
    """

    def same(pair: tuple[int, tuple[Any, Any]]) -> bool:
        position, (a, b) = pair
        if loose is None:
            return alike(a, b)
        return alike(a, b, 1e-6, 1e-6) if position in loose else bool(a == b)

    missing, extra = multiset(expected) - multiset(actual), multiset(actual) - multiset(expected)
    for row in list(missing.elements()):
        partner = next((e for e in extra.elements() if all(map(same, enumerate(zip(row, e, strict=True))))), None)
        if partner is not None:
            missing.subtract([row])
            extra.subtract([partner])
    return +missing, +extra


def assert_same(actual: pa.Table, expected: pa.Table, what: str) -> None:
    missing, extra = differences(actual, expected)
    assert (missing, extra) == (Counter(), Counter()), f"{what}\n missing {dict(missing)}\n extra {dict(extra)}"
