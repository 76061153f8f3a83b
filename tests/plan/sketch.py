"""Tables and a typer for planner tests that run without Spark and without a JVM.

`SketchTyper` derives approximate types with sqlglot. `test_meaning.py` checks plans with the types of Spark.
"""

from __future__ import annotations

from collections.abc import Sequence

from sqlglot import exp, parse_one
from sqlglot.optimizer.annotate_types import annotate_types

from tailrace.plan.build.select import ExpressionFault, Types, build
from tailrace.plan.nodes import Node, Scan
from tailrace.plan.rewrite.rewriter import rewrite
from tailrace.plan.sql import statements
from tailrace.types import Column

TABLES = """
CREATE TABLE orders (id BIGINT PRIMARY KEY, cust BIGINT, price DECIMAL(12,2), day DATE);
CREATE TABLE customers (cust BIGINT PRIMARY KEY, name STRING, nation INT);
CREATE TABLE nations (nation INT PRIMARY KEY, title STRING);
CREATE TABLE lines (id BIGINT, line INT, part BIGINT, qty INT, PRIMARY KEY (id, line));
CREATE TABLE t (a INT PRIMARY KEY, b INT, c STRING, d DOUBLE);
CREATE TABLE u (a INT PRIMARY KEY, b BIGINT, e STRING);
CREATE TABLE w (x INT PRIMARY KEY, y BIGINT, z BOOLEAN);
"""
NESTED = Scan(
    "nested",
    90,
    (Column("k", "int"), Column("st", "struct<f:struct<g:int>,h:string>"), Column("xs", "array<int>")),
    (0,),
    (0, 1, 2),
)

_FIXED = {
    "approx_count_distinct": "bigint",
    "arrays_zip": "array<struct<0:int,1:int>>",
    "collect_list": "array<int>",
    "count": "bigint",
    "count_if": "bigint",
    "dense_rank": "int",
    "length": "int",
    "listagg": "string",
    "mean": "double",
    "median": "double",
    "mode": "int",
    "named_struct": "struct<a:int,col2:int>",
    "percentile": "double",
    "rank": "int",
    "row_number": "int",
    "size": "int",
    "sort_array": "array<int>",
    "stddev": "double",
    "transform": "array<int>",
    "upper": "string",
}
_FIRST = ("min", "max", "max_by", "abs", "nullif", "ifnull", "lead", "lag", "first_value", "last_value", "nth_value")
_NUMBERS = ["tinyint", "smallint", "int", "bigint", "decimal", "float", "double"]
_WIDER = ["void", "boolean", *_NUMBERS, "date", "timestamp", "string"]


class SketchTyper:
    def __init__(self) -> None:
        self.asked: list[list[str]] = []

    def types(self, columns: Sequence[Column], expressions: Sequence[str]) -> list[str]:
        self.asked.append(list(expressions))
        return [_type(e, columns, index) for index, e in enumerate(expressions)]


def _type(text: str, columns: Sequence[Column], index: int) -> str:
    tree = parse_one(text, dialect="spark")
    return _of(tree, columns, index)


def _of(tree: exp.Expression, columns: Sequence[Column], index: int) -> str:
    text = tree.sql("spark")
    if text[1:].isdigit() and text[0] == "_":
        return columns[int(text[1:])].type
    if isinstance(tree, exp.Window | exp.IgnoreNulls):
        return _of(tree.this, columns, index)
    name = tree.sql("spark").split("(")[0].lower()
    if isinstance(tree, exp.Anonymous) and name not in _FIXED:
        raise ExpressionFault(index=index, message=f"[UNRESOLVED_ROUTINE] no function {name}")
    if name in _FIXED:
        return _FIXED[name]
    if isinstance(tree, exp.Dot):
        return "int"
    if isinstance(tree, exp.Column):
        return "string" if tree.name == "h" else "int"
    if name == "coalesce" or name in _FIRST:
        arguments = [tree.this, *tree.expressions]
        kinds = [_of(a, columns, index) for a in (arguments if name == "coalesce" else arguments[:1])]
        return max(kinds, key=lambda k: _WIDER.index(k.split("(")[0]))
    if isinstance(tree, exp.Sum | exp.Avg):
        return _summed(_of(tree.this, columns, index), average=isinstance(tree, exp.Avg))
    if isinstance(tree, exp.Case):
        return _of(tree.args["ifs"][0].args["true"], columns, index)
    if isinstance(tree, exp.Null):
        return "void"
    if isinstance(tree, exp.Paren):
        return _of(tree.this, columns, index)
    return _annotated(tree, columns)


def _summed(kind: str, *, average: bool) -> str:
    if kind.startswith("decimal"):
        precision, scale = (int(n) for n in kind[8:-1].split(","))
        more = 4 if average else 0
        return f"decimal({min(38, precision + (4 if average else 10))},{scale + more})"
    return "double" if average or kind in ("float", "double") else "bigint"


def _annotated(tree: exp.Expression, columns: Sequence[Column]) -> str:
    schema = {"r": {f"_{i}": c.type for i, c in enumerate(columns)} or {"none": "int"}}
    query = exp.select(tree.copy()).from_("r")
    for node in query.find_all(exp.Column):
        if not node.table:
            node.set("table", exp.to_identifier("r"))
    type_ = annotate_types(query, schema=schema, dialect="spark").expressions[0].type
    return (
        type_.sql("spark").lower().replace(", ", ",")
        if type_ is not None and type_.this != exp.DType.UNKNOWN
        else "int"
    )


class Sketch:
    """Tables and views by name."""

    def __init__(self, sql: str = TABLES) -> None:
        self.nodes: dict[str, Node] = {"nested": NESTED}
        self.typer = SketchTyper()
        self.types = Types(self.typer)
        for number, made in enumerate(statements.parse(sql), 1):
            assert isinstance(made, statements.CreateTable)
            names = [c.name for c in made.columns]
            key = tuple(names.index(k) for k in made.key)
            self.nodes[made.name] = Scan(made.name, number, made.columns, key, tuple(range(len(names))))

    def __call__(self, name: str) -> Node | None:
        return self.nodes.get(name)

    def names(self) -> list[str]:
        return list(self.nodes)

    def build(self, sql: str) -> Node:
        return build(statements.parse_query(sql), self, self.types)

    def plan(self, sql: str) -> Node:
        return rewrite(self.build(sql), self.types)

    def view(self, name: str, sql: str) -> Node:
        self.nodes[name] = self.plan(sql)
        return self.nodes[name]
