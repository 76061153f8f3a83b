"""Computes the views of a recording with plain Spark SQL over given base rows: the checker's reference result.

Views over views are computed from the tables too. If the SQL leaves ties open, the view's plan breaks them
(`planned.py`).
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Mapping
from typing import Any

import pyarrow as pa
from pyspark.errors import PySparkException
from pyspark.sql import DataFrame, SparkSession

from tailrace.codec.schema import TableDef
from tailrace.errors import TailraceError
from tailrace.plan.nodes import Node, from_json
from tailrace.plan.physical.lower import lower_plan
from tailrace.plan.sql import functions
from tailrace.plan.sql.recomputable import relations, require_storable
from tailrace.plan.sql.statements import parse_query
from tailrace.plan.sql.times import at_time, reads_time
from tailrace.spark.session import session
from tailrace.spark.type_names import type_name
from tailrace.types import Column, quoted
from tailrace.verify.history.history_file import Header, RecordedView
from tailrace.verify.history.row_shapes import Shape, State
from tailrace.verify.history.timelines import TIME, Definition, Matters, Rows
from tailrace.verify.planned import Planned

# Unsafe otherwise: a recording may come from anywhere, so its SQL may read only its own tables and must not run code or
# open files. The planner never leaves subqueries in a plan's expressions, so a plan that has one is forged.
_OUTSIDE = ("java_method", "reflect", "try_reflect", "identifier")
_OUTSIDE_PLAN = re.compile(rf"\b({'|'.join(_OUTSIDE)})\b|\(\s*(select|with|from|table|values)\b|/\*|--", re.I)
CACHED = 1000  # results kept


class Evaluator:
    """Computes the views of a recording. `refuse` makes the error for an invalid definition."""

    def __init__(self, spark: SparkSession, header: Header, refuse: Callable[[str], TailraceError]) -> None:
        self._spark, self._refuse = session(spark), refuse
        self._spark.conf.set("spark.sql.shuffle.partitions", "1")
        self._tables = {t.name: t for t in header.tables}
        self._views = {v.name: v for v in header.views}
        self._reads = {v.name: self._relations_of(v) for v in header.views}
        self._plans = {v.name: self._plan(v) for v in header.views if v.plan is not None}
        self._results: dict[tuple[str, int, frozenset[tuple[Any, int]]], State] = {}
        empty = {name: _frame(self._spark, table, []) for name, table in self._tables.items()}
        self.shapes = {v.name: self._shape(v, empty) for v in header.views if v.recorded}

    def definition(self, name: str) -> Definition:
        """The view as a function of base rows."""
        tables = self._tables_below(name)

        def compute(rows: Rows) -> State:
            relevant = {record: row for record, row in rows.items() if record[0] in tables}
            time = rows.get(TIME, 0)
            content = name, time, frozenset((record, id(row)) for record, row in relevant.items())
            if content not in self._results:
                if len(self._results) >= CACHED:
                    self._results.pop(next(iter(self._results)))
                self._results[content] = self._compute(name, relevant, time)
            return self._results[content]

        return compute

    def matters(self, name: str) -> Matters:
        """Which base records a view can depend on: those of its tables."""
        tables = self._tables_below(name)
        return lambda key, record, versions: record[0] in tables

    def reads_time(self, name: str) -> bool:
        """Whether the view, or a view that it reads, uses `now()` or its kin."""
        used = [self.reads_time(source) for source in self._reads[name] if source in self._views]
        return any(used) or reads_time(parse_query(self._views[name].sql))

    def _compute(self, name: str, rows: Rows, time: int) -> State:
        rows_by_table: dict[str, list[Any]] = {table: [] for table in self._tables_below(name)}
        for (table, _), row in rows.items():
            rows_by_table[table].append(row)
        frames = {table: _frame(self._spark, self._tables[table], content) for table, content in rows_by_table.items()}
        try:
            result = self._frame_of(name, frames, time).toArrow()
        except PySparkException as error:
            raise self._refuse(f"Spark cannot compute view {name!r}: {str(error).splitlines()[0]}") from error
        columns = [column.to_pylist() for column in result.columns]
        try:
            return self.shapes[name].build_state(zip(*columns, strict=True))
        except ValueError as error:
            raise self._refuse(f"the key of view {name!r} is not unique: {error}") from None

    def _frame_of(self, name: str, frames: Mapping[str, DataFrame], time: int) -> DataFrame:
        if name in self._plans:
            return Planned(self._spark, frames, time).frame(self._plans[name])
        return self._query(name, frames, time)

    def _query(self, name: str, frames: Mapping[str, DataFrame], time: int) -> DataFrame:
        for source in self._reads[name]:
            frame = frames[source] if source in frames else self._query(source, frames, time)
            frame.createOrReplaceTempView(quoted(source))
        return self._spark.sql(at_time(self._views[name].sql, time))

    def _tables_below(self, name: str) -> set[str]:
        """The tables that a view reads, directly or through other views."""
        reads = self._reads[name]
        direct = {r for r in reads if r in self._tables}
        return direct.union(*(self._tables_below(r) for r in reads if r in self._views))

    def _relations_of(self, view: RecordedView) -> list[str]:
        try:
            query = parse_query(view.sql)
            sources = relations(query, {*self._tables, *self._views})
        except TailraceError as error:
            raise self._refuse(f"the SQL of view {view.name!r} is invalid: {error}") from None
        called = {functions.name(node) for node in query.walk()}
        if called.intersection(_OUTSIDE) or _OUTSIDE_PLAN.search(json.dumps(view.plan)):
            raise self._refuse(f"view {view.name!r} uses code or data outside the recorded tables")
        names = list(self._views)
        if late := [r for r in sources if r in self._views and names.index(r) >= names.index(view.name)]:
            raise self._refuse(f"view {view.name!r} reads {late[0]!r}, which must be defined before it")
        return sources

    def _plan(self, view: RecordedView) -> Node:
        try:
            return lower_plan(from_json(view.plan))
        except (KeyError, TypeError, ValueError, AttributeError, TailraceError) as error:
            raise self._refuse(f"the plan of view {view.name!r} is invalid: {error}") from None

    def _shape(self, view: RecordedView, empty: Mapping[str, DataFrame]) -> Shape:
        try:
            schema = self._query(view.name, empty, 0).schema
            columns = tuple(Column(f.name, type_name(f.dataType)) for f in schema)
            require_storable(columns)
        except (PySparkException, TailraceError) as error:
            raise self._refuse(f"the SQL of view {view.name!r} is invalid: {str(error).splitlines()[0]}") from None
        names = [c.name for c in columns]
        if unknown := [k for k in view.key or () if k not in names]:
            raise self._refuse(f"key column {unknown[0]!r} is not a column of view {view.name!r}")
        return Shape(columns, None if view.key is None else tuple(names.index(k) for k in view.key))


def _frame(spark: SparkSession, table: TableDef, rows: list[Any]) -> DataFrame:
    columns = [pa.array([row[f.name] for row in rows], f.type) for f in table.schema]
    frame = spark.createDataFrame(pa.Table.from_arrays(columns, schema=table.schema))
    return frame.selectExpr(*(f"CAST(`{c.name}` AS {c.type}) AS `{c.name}`" for c in table.columns))
