"""Views computed by plain Spark SQL over base rows that are given: what checking takes for right.

A view that reads views is computed from the tables, like them. Where SQL leaves ties open, the plan of the view decides
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
from tailrace.plan.physical.lower import lowered
from tailrace.plan.sql import functions
from tailrace.plan.sql.recomputable import relations, require_storable
from tailrace.plan.sql.statements import parse_query
from tailrace.spark.session import session
from tailrace.types import Column, quoted
from tailrace.verify.history.history_file import Header, RecordedView
from tailrace.verify.history.row_shapes import Shape, State
from tailrace.verify.history.timelines import Definition, Matters, Rows
from tailrace.verify.planned import Planned

# A recording may come from anywhere, and its SQL must reach nothing but its tables: no code, no file. Plans have no
# subqueries in their expressions, so one that has was not made by a planner.
_OUTSIDE = ("java_method", "reflect", "try_reflect", "identifier")
_OUTSIDE_PLAN = re.compile(rf"\b({'|'.join(_OUTSIDE)})\b|\(\s*(select|with|from|table|values)\b|/\*|--", re.I)
REMEMBERED = 1000  # answers


class Evaluator:
    """Computes the views of a recording. `refuse` makes the error for a definition that is wrong."""

    def __init__(self, spark: SparkSession, header: Header, refuse: Callable[[str], TailraceError]) -> None:
        self._spark, self._refuse = session(spark), refuse
        self._spark.conf.set("spark.sql.shuffle.partitions", "1")
        self._tables = {t.name: t for t in header.tables}
        self._views = {v.name: v for v in header.views}
        self._reads = {v.name: self._read_by(v) for v in header.views}
        self._plans = {v.name: self._plan(v) for v in header.views if v.plan is not None}
        self._answers: dict[tuple[str, frozenset[tuple[Any, int]]], State] = {}
        empty = {name: _frame(self._spark, table, []) for name, table in self._tables.items()}
        self.shapes = {v.name: self._shape(v, empty) for v in header.views if v.recorded}

    def definition(self, name: str) -> Definition:
        """The view as a function of base rows."""
        below = self._below(name)

        def compute(rows: Rows) -> State:
            held = {record: row for record, row in rows.items() if record[0] in below}
            content = name, frozenset((record, id(row)) for record, row in held.items())
            if content not in self._answers:
                if len(self._answers) >= REMEMBERED:
                    self._answers.pop(next(iter(self._answers)))
                self._answers[content] = self._computed(name, held)
            return self._answers[content]

        return compute

    def matters(self, name: str) -> Matters:
        """Which base records a view can depend on: those of its tables."""
        below = self._below(name)
        return lambda key, record, versions: record[0] in below

    def _computed(self, name: str, rows: Rows) -> State:
        of: dict[str, list[Any]] = {table: [] for table in self._below(name)}
        for (table, _), row in rows.items():
            of[table].append(row)
        frames = {table: _frame(self._spark, self._tables[table], held) for table, held in of.items()}
        try:
            found = self._answer(name, frames).toArrow()
        except PySparkException as error:
            raise self._refuse(f"Spark cannot compute view {name!r}: {str(error).splitlines()[0]}") from error
        columns = [column.to_pylist() for column in found.columns]
        try:
            return self.shapes[name].state(zip(*columns, strict=True))
        except ValueError as error:
            raise self._refuse(f"view {name!r} does not have the key it is said to have: {error}") from None

    def _answer(self, name: str, frames: Mapping[str, DataFrame]) -> DataFrame:
        if name in self._plans:
            return Planned(self._spark, frames).frame(self._plans[name])
        return self._query(name, frames)

    def _query(self, name: str, frames: Mapping[str, DataFrame]) -> DataFrame:
        for source in self._reads[name]:
            found = frames[source] if source in frames else self._query(source, frames)
            found.createOrReplaceTempView(quoted(source))
        return self._spark.sql(self._views[name].sql)

    def _below(self, name: str) -> set[str]:
        """The tables that a view reads, itself or through others."""
        reads = self._reads[name]
        return {r for r in reads if r in self._tables}.union(*(self._below(r) for r in reads if r in self._views))

    def _read_by(self, view: RecordedView) -> list[str]:
        try:
            query = parse_query(view.sql)
            found = relations(query, {*self._tables, *self._views})
        except TailraceError as error:
            raise self._refuse(f"the SQL of view {view.name!r}: {error}") from None
        words = {functions.name(node) for node in query.walk()}
        if words.intersection(_OUTSIDE) or _OUTSIDE_PLAN.search(json.dumps(view.plan)):
            raise self._refuse(f"view {view.name!r} reaches beyond its tables")
        names = list(self._views)
        if late := [r for r in found if r in self._views and names.index(r) >= names.index(view.name)]:
            raise self._refuse(f"view {view.name!r} reads {late[0]!r}, which is not defined before it")
        return found

    def _plan(self, view: RecordedView) -> Node:
        try:
            return lowered(from_json(view.plan))
        except (KeyError, TypeError, ValueError, AttributeError, TailraceError) as error:
            raise self._refuse(f"the plan of view {view.name!r} is wrong: {error}") from None

    def _shape(self, view: RecordedView, empty: Mapping[str, DataFrame]) -> Shape:
        try:
            schema = self._query(view.name, empty).schema
            columns = tuple(Column(f.name, f.dataType.simpleString()) for f in schema)
            require_storable(columns)
        except (PySparkException, TailraceError) as error:
            raise self._refuse(f"the SQL of view {view.name!r}: {str(error).splitlines()[0]}") from None
        names = [c.name for c in columns]
        if unknown := [k for k in view.key or () if k not in names]:
            raise self._refuse(f"view {view.name!r} has no column {unknown[0]!r}, which is to be of its key")
        return Shape(columns, None if view.key is None else tuple(names.index(k) for k in view.key))


def _frame(spark: SparkSession, table: TableDef, rows: list[Any]) -> DataFrame:
    columns = [pa.array([row[f.name] for row in rows], f.type) for f in table.schema]
    made = spark.createDataFrame(pa.Table.from_arrays(columns, schema=table.schema))
    return made.selectExpr(*(f"CAST(`{c.name}` AS {c.type}) AS `{c.name}`" for c in table.columns))
