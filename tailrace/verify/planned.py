"""Computes a view's plan with Spark from the tables at a cut, for views whose SQL has more than one right answer.

`row_number() OVER (ORDER BY day)` may number the rows of one day in any order, and LIMIT and `max_by` may take any of
them. The plan breaks these ties (`plan/ties.py`, `plan/build/tie_breaks.py`). Nothing here is incremental: each plan
node becomes one Spark operator.
"""

from __future__ import annotations

from collections.abc import Mapping
from functools import reduce

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F  # noqa: N812

from tailrace.delta import column
from tailrace.plan.binding import BoundQuery
from tailrace.plan.nodes import (
    Aggregate,
    Filter,
    Generate,
    Join,
    Node,
    OneRow,
    Project,
    Scan,
    TemporalFilter,
    TopK,
    UnionAll,
    Window,
    walk,
)
from tailrace.plan.physical.lower import lower_plan
from tailrace.plan.ties import NUMBER, is_decided, over, whole_order, window_sql
from tailrace.spark.frames import table_rows
from tailrace.store.base import Store
from tailrace.store.pins import Pin

_KINDS = {"semi": "left_semi", "anti": "left_anti"}


def leaves_ties_open(root: Node) -> bool:
    """Whether the SQL of a plan allows several answers."""
    return any(isinstance(n, Aggregate | Window | TopK) and not is_decided(n) for n in walk(root))


def planned_rows(spark: SparkSession, store: Store, root: Node, query: BoundQuery, pin: Pin) -> DataFrame:
    """The result of a view's plan over the tables of its store at the cut and time of an epoch."""
    tables = {t.name: table_rows(spark, store, t, pin.cut) for t in query.tables.values()}
    return Planned(spark, tables, pin.time).frame(lower_plan(root))


class Planned:
    """Computes plan nodes over tables at a time (microseconds since 1970).

    `tables` has each table by name, as a frame with all of its columns.
    """

    def __init__(self, spark: SparkSession, tables: Mapping[str, DataFrame], time: int) -> None:
        self._spark, self._tables, self._time = spark, tables, time

    def frame(self, node: Node) -> DataFrame:
        """The node's relation, with columns named `_0`, `_1`, ..."""
        match node:
            case Scan():
                rows = _renamed(self._tables[node.table])
                return _renamed(rows.select(*(column(p) for p in node.positions)))
            case OneRow():
                return self._spark.range(1).select()
            case Generate():
                generated = ", ".join(column(i) for i in range(len(node.input.columns), len(node.columns)))
                return self.frame(node.input).selectExpr("*", f"{node.generator} AS ({generated})")
            case Filter():
                return self.frame(node.input).where(node.condition)
            case Project():
                return _renamed(
                    self.frame(node.input).selectExpr(*(f"{e} AS c{i}" for i, e in enumerate(node.expressions)))
                )
            case UnionAll():
                return reduce(DataFrame.unionAll, map(self.frame, node.branches))
            case Join():
                return self._join(node)
            case Aggregate():
                return self._aggregate(node)
            case Window():
                return windowed(node, self.frame(node.input))
            case TopK():
                return first_rows(node, self.frame(node.input))
            case TemporalFilter():
                start, end = (column(len(node.columns) + i) for i in range(2))
                valid = self.frame(node.input).where(f"{start} <= {self._time} AND {self._time} < {end}")
                return valid.drop(start, end)
        raise NotImplementedError(type(node).__name__)

    def _join(self, node: Join) -> DataFrame:
        left, right = (
            self.frame(side).toDF(*(f"{name}{i}" for i in range(len(side.columns))))
            for side, name in ((node.left, "l"), (node.right, "r"))
        )
        pairs = zip(node.left_on, node.right_on, node.null_safe, strict=True)
        on = " AND ".join(f"l{a} {'<=>' if safe else '='} r{b}" for a, b, safe in pairs) or "true"
        return _renamed(left.join(right, F.expr(on), _KINDS.get(node.kind, node.kind)))

    def _aggregate(self, node: Aggregate) -> DataFrame:
        frame = self.frame(node.input)
        groups = [column(p) for p in node.groups]
        if not node.calls:
            return _renamed(frame.select(*groups).distinct())
        calls = [F.expr(c.sql).cast(c.type).alias(f"a{i}") for i, c in enumerate(node.calls)]
        return _renamed(frame.groupBy(*groups).agg(*calls))


def windowed(node: Window, source: DataFrame) -> DataFrame:
    """The input rows of the node, each with the values of its window functions."""
    number, calls = window_sql(node)
    frame = source if number is None else source.selectExpr("*", f"{number} AS {NUMBER}")
    values = [f"CAST({sql} AS {c.type}) AS w{i}" for i, (sql, c) in enumerate(zip(calls, node.calls, strict=True))]
    return _renamed(frame.selectExpr(*(column(i) for i in range(len(node.input.columns))), *values))


def first_rows(node: TopK, source: DataFrame) -> DataFrame:
    """The input rows that the node selects."""
    order = whole_order(node) or ((0, True, True),)  # without an order, a partition has at most one row
    numbers = f"row_number() {over(node.partition, order, '')} AS {NUMBER}"
    frame = source.selectExpr("*", numbers).where(f"{NUMBER} > {node.offset}")
    if node.limit is not None:
        frame = frame.where(f"{NUMBER} <= {node.offset + node.limit}")
    return _renamed(frame) if node.numbered else frame.drop(NUMBER)


def _renamed(frame: DataFrame) -> DataFrame:
    return frame.toDF(*(column(i) for i in range(len(frame.columns))))
