"""Finds out why a view fails: the operator of its plan, the expression, and the key of a row on which it fails.

Each operator of the plan is run on its own, inputs first, as a dry run that writes nothing. The first one that fails is
to blame. Its input rows are then halved until one row is left on which its expression fails.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from typing import NamedTuple

import pyarrow as pa
from pyspark.sql import DataFrame, SparkSession

from tailrace import types
from tailrace.codec.schema import TableDef
from tailrace.delta import column
from tailrace.plan import explain
from tailrace.plan.nodes import Filter, Generate, Node, OneRow, Project, Scan
from tailrace.plan.physical.physical_plan import ViewSink
from tailrace.spark.compile import Compiler
from tailrace.spark.failures import FAILURES, epoch_failed, is_outside, reason
from tailrace.spark.flows import Flow, FlowOperators
from tailrace.spark.stages import Stages
from tailrace.store.base import Store

MAX_ROWS = 1_000_000  # input rows that are searched for one that fails
MAX_SHOWN = 4  # columns shown of a row without a key
MAX_TEXT = 200  # characters shown of an expression or a value


Step = Scan | Filter | Project


class Cause(NamedTuple):
    """Why a view fails. Fields are empty if they could not be found out.

    `table` and `row` are the table's number and the encoded key (in hex) of the row on which it fails, if that is
    determined by one row of a table alone.
    """

    operator: str = ""
    expression: str = ""
    key: str = ""
    reason: str = ""
    table: int = 0
    row: str = ""


def find_cause(
    stages: Stages,
    tables: Mapping[int, TableDef],
    states: Mapping[str, int],
    view: ViewSink,
    touched: frozenset[int] | None,
    due: frozenset[int],
) -> Cause:
    """The cause of a view's failure. The assignment of the job must be a dry run."""
    compiler = Compiler(stages, tables, states, touched, due, blank=touched is None, netted=True)
    flows = FlowOperators(stages)
    for node in _inputs_first(view.plan.root, set()):
        if isinstance(node, Scan | OneRow):
            continue
        try:
            flow = compiler.delta(node)
            if flow is not None:
                _run(flows.to_frame(flow))
        except FAILURES as error:
            if is_outside(epoch_failed(0, error)):
                return Cause()
            return _blame(stages, compiler, tables, node, reason(error))
    return Cause()


def _inputs_first(node: Node, seen: set[str]) -> Iterator[Node]:
    if node.fingerprint not in seen:
        seen.add(node.fingerprint)
        for child in node.inputs:
            yield from _inputs_first(child, seen)
        yield node


def _run(frame: DataFrame) -> None:
    """Runs a frame with all its columns; a count would let Spark leave out expressions."""
    frame.write.format("noop").mode("overwrite").save()


def _blame(stages: Stages, compiler: Compiler, tables: Mapping[int, TableDef], node: Node, why: str) -> Cause:
    flows = FlowOperators(stages)
    operator, whole = explain.operator(node), _shorten(explain.describe(node))
    if not isinstance(node, Filter | Project | Generate):
        return Cause(operator, whole, "", why)
    source, steps = _table_below(node.input)
    try:
        flow = compiler.delta(source)
        assert flow is not None
        found = _find_row(stages.spark, _collect(flows, flow), steps, _texts(node))
    except FAILURES:
        found = None  # Spark stopped meanwhile: the operator alone must do
    if found is None:
        return Cause(operator, whole, "", why)
    row, text = found
    names = explain.names(source)
    expression = _shorten(explain.named(text, explain.names(node.input)))
    shown_key = _key_of(source, names, row)
    if not isinstance(source, Scan):
        return Cause(operator, expression, shown_key, why)
    key = _encoded_key(tables[source.table_id], stages.store, row)
    return Cause(operator, expression, f"{source.table}: {shown_key}", why, source.table_id, key.hex())


def _encoded_key(table: TableDef, store: Store, row: pa.Table) -> bytes:
    """The stored key of a row that has all stored columns of its table."""
    kinds = [types.arrow(c.type) for c in table.key_schema]
    cells = [row.column(p).combine_chunks().cast(k) for p, k in zip(table.positions, kinds, strict=True)]
    encoded = table.keys.encode(cells, 1)
    return bytes(store.key_limit.shorten(encoded)[0].as_py())


def _table_below(node: Node) -> tuple[Node, list[Step]]:
    """The table whose rows reach a node through filters and projections only, with all its columns; and these steps.

    If there is none, the node itself, and no steps.
    """
    steps: list[Step] = []
    below = node
    while isinstance(below, Filter | Project):
        steps.append(below)
        below = below.input
    if not isinstance(below, Scan):
        return node, []
    whole = replace(below, positions=tuple(range(len(below.table_columns))))
    return whole, [below, *reversed(steps)]


def _apply(frame: DataFrame, steps: Sequence[Step]) -> DataFrame:
    """The rows after filters and projections, with positional columns."""
    for step in steps:
        match step:
            case Scan(positions=positions):
                frame = frame.selectExpr(*(f"{column(p)} AS {column(i)}" for i, p in enumerate(positions)))
            case Filter(condition=condition):
                frame = frame.where(condition)
            case Project(expressions=expressions):
                frame = frame.selectExpr(*(f"{e} AS {column(i)}" for i, e in enumerate(expressions)))
    return frame


def _texts(node: Filter | Project | Generate) -> Sequence[str]:
    match node:
        case Filter(condition=condition):
            return [condition]
        case Project(expressions=expressions):
            return expressions
        case Generate(generator=generator):
            return [generator]


def _collect(flows: FlowOperators, flow: Flow) -> pa.Table:
    names = [name for name, _ in flow.fields[:-1]]
    return flows.to_frame(flow).select(*names).limit(MAX_ROWS).toArrow()


def _find_row(
    spark: SparkSession, rows: pa.Table, steps: Sequence[Step], texts: Sequence[str]
) -> tuple[pa.Table, str] | None:
    """A row, and the expression that fails on it after the steps; None if none fails on its own."""
    failing = next((text for text in texts if _fails(spark, rows, steps, text)), None)
    if failing is None:
        return None
    while rows.num_rows > 1:
        half = rows.slice(0, rows.num_rows // 2)
        rows = half if _fails(spark, half, steps, failing) else rows.slice(rows.num_rows // 2)
    return (rows, failing) if _fails(spark, rows, steps, failing) else None  # a wrong row would never be repaired


def _fails(spark: SparkSession, rows: pa.Table, steps: Sequence[Step], text: str) -> bool:
    try:
        _run(_apply(spark.createDataFrame(rows), steps).selectExpr(text))
    except FAILURES:
        return True
    return False


def _key_of(node: Node, names: Sequence[str], row: pa.Table) -> str:
    """The key of a row as text; its first columns if it has no key."""
    positions = node.key if node.key else range(min(len(names), MAX_SHOWN))
    return ", ".join(f"{names[p]} = {_shorten(repr(row.column(p)[0].as_py()))}" for p in positions)


def _shorten(text: str) -> str:
    return text if len(text) <= MAX_TEXT else text[: MAX_TEXT - 3] + "..."
