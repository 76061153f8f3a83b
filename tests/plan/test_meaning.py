"""Plans, as built and after all rewrites, return the same rows as Spark for the SQL."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import DataFrame, SparkSession
from sketch import NESTED, Sketch

from tailrace.plan.build.select import Types
from tailrace.plan.expressions import refs
from tailrace.plan.nodes import Aggregate, Filter, Generate, Join, Node, OneRow, Project, Scan, TopK, UnionAll, Window
from tailrace.plan.physical.lower import lower_plan
from tailrace.spark.typer import SparkTyper
from tailrace.verify.planned import first_rows, windowed
from tailrace_fuzz.model import interpreted

QUERIES = sorted((Path(__file__).parent.parent / "fixtures" / "plan").glob("meaning*.sql"))
ROWS = {
    "t": [
        (1, 1, "x", 1.5), (2, 2, "y", -1.0), (3, 1, None, 2.5), (4, None, "x", None), (5, 3, "x", 0.0),
        (6, 2, "y", 4.0), (7, 1, "q", 1.5),
    ],
    "u": [(1, 2, "p"), (2, 1, "q"), (3, 2, "x"), (5, None, "p"), (9, 3, None), (4, 7, "x")],
    "w": [(1, 2, True), (2, 1, False), (3, 7, True), (7, 2, None)],
}  # fmt: skip
NESTED_ROWS = """
    (1, named_struct('f', named_struct('g', 1), 'h', 'p'), array(1, 2)),
    (2, named_struct('f', named_struct('g', 1), 'h', NULL), array(3)),
    (3, named_struct('f', named_struct('g', 2), 'h', 'q'), array(5, NULL))
"""


def queries() -> list[str]:
    sqls = []
    for path in QUERIES:
        text = "\n".join(line for line in path.read_text().splitlines() if not line.startswith("--"))
        sqls += [q.strip() for q in text.split(";") if q.strip()]
    return sqls


@pytest.fixture(scope="module")
def plain(spark: SparkSession) -> SparkSession:
    """A session that compiles nothing: each query runs once, so compiling it would take most of the time."""
    return interpreted(spark)


@pytest.fixture(scope="module")
def sketch(plain: SparkSession) -> Iterator[Sketch]:
    made = Sketch()
    made.types = Types(SparkTyper(plain))
    for name, rows in ROWS.items():
        node = made.nodes[name]
        schema = ", ".join(f"{c.name} {c.type}" for c in node.columns)
        plain.createDataFrame(rows, schema).createOrReplaceTempView(name)
    columns = ", ".join(c.name for c in NESTED.columns)
    plain.sql(f"SELECT * FROM VALUES {NESTED_ROWS} AS n({columns})").createOrReplaceTempView("nested")
    yield made
    for name in (*ROWS, "nested"):
        plain.catalog.dropTempView(name)


@pytest.mark.parametrize("sql", queries())
def test_plan_means_its_sql(sql: str, sketch: Sketch, plain: SparkSession) -> None:
    asked = plain.sql(sql)
    expected = _rows(asked)
    built, planned = sketch.build(sql), sketch.plan(sql)
    assert [c.name.lower() for c in planned.columns] == [c.lower() for c in asked.columns]
    assert [c.type for c in planned.columns] == [f.dataType.simpleString() for f in asked.schema]
    assert _rows(_frame(built, plain)) == expected
    assert _rows(_frame(planned, plain)) == expected
    if (maintained := lower_plan(planned)) is not planned:
        assert maintained.key in (None, planned.key)
        assert _rows(_frame(maintained, plain)) == expected
    _check_key(planned, expected)


def _check_key(node: Node, rows: Counter[Any]) -> None:
    if node.key is not None:
        keys = Counter({tuple(row[p] for p in node.key): n for row, n in rows.items()})
        assert sum(rows.values()) == len(keys), f"key {node.key} is not unique"


def _rows(frame: DataFrame) -> Counter[Any]:
    return Counter(tuple(_hashable(v) for v in row) for row in frame.collect())


def _hashable(value: Any) -> Any:
    if isinstance(value, dict | list | tuple):
        return repr(value)
    return round(value, 9) if isinstance(value, float) else value


def _frame(node: Node, spark: SparkSession) -> DataFrame:
    """The node run by Spark over whole tables."""
    inputs = [_frame(child, spark) for child in node.inputs]
    match node:
        case Scan(table=table):
            return _positional(spark.table(table).select(*(c.name for c in node.columns)))
        case OneRow():
            return spark.range(1).select()
        case Filter(condition=condition):
            return inputs[0].where(condition)
        case Generate(generator=generator):
            made = ", ".join(f"_{i}" for i in range(len(node.input.columns), len(node.columns)))
            return inputs[0].selectExpr("*", f"{generator} AS ({made})")
        case Project(expressions=expressions):
            return inputs[0].selectExpr(*(f"{e} AS _{i}" for i, e in enumerate(expressions)))
        case Join():
            return _join(node, inputs[0], inputs[1], spark)
        case Aggregate(groups=groups, calls=calls):
            if groups and not calls:
                return _positional(inputs[0].select(*(f"_{p}" for p in groups)).distinct())
            inputs[0].createOrReplaceTempView("aggregated")
            shown = [*(f"_{p}" for p in groups), *(c.sql for c in calls)]
            by = f" GROUP BY {', '.join(f'_{p}' for p in groups)}" if groups else ""
            return _positional(spark.sql(f"SELECT {', '.join(shown)} FROM aggregated{by}"))
        case UnionAll():
            whole = inputs[0]
            for other in inputs[1:]:
                whole = whole.union(other)
            return whole
        case Window():
            return windowed(node, inputs[0])
        case TopK():
            return first_rows(node, inputs[0])
    raise TypeError(type(node).__name__)


def _positional(frame: DataFrame) -> DataFrame:
    return frame.toDF(*(f"_{i}" for i in range(len(frame.columns))))


def _join(node: Join, left: DataFrame, right: DataFrame, spark: SparkSession) -> DataFrame:
    left.toDF(*(f"l{i}" for i in range(len(left.columns)))).createOrReplaceTempView("l")
    right.toDF(*(f"r{i}" for i in range(len(right.columns)))).createOrReplaceTempView("r")
    pairs = zip(node.left_on, node.right_on, node.null_safe, strict=True)
    met = " AND ".join(f"l{a} {'<=>' if safe else '='} r{b}" for a, b, safe in pairs) or "TRUE"
    if node.condition is not None:
        width = len(node.left.columns)
        names = {i: f"l{i}" if i < width else f"r{i - width}" for i in refs(node.condition)}
        met += " AND (" + re.sub(r"\b_(\d+)\b", lambda match: names[int(match[1])], node.condition) + ")"
    return _positional(spark.sql(f"SELECT * FROM l {node.kind.upper()} JOIN r ON {met}"))
