"""Every expression compiled to Arrow has the type and value that Spark gives it, bit for bit."""

from __future__ import annotations

import pickle
from collections.abc import Mapping, Sequence
from pathlib import Path

import numpy as np
import pyarrow as pa
import pytest
from edges import COLUMNS, TYPES, Texts, rows, values
from pyspark.sql import SparkSession

from tailrace.errors import RowFailed
from tailrace.plan.nodes import Aggregate, Call, Scan
from tailrace.plan.physical.arrangements import rule
from tailrace.plan.physical.slots import plan_slots
from tailrace.rules.arrow.compiled import Expression, compile
from tailrace.spark.session import session
from tailrace.types import Column, arrow, name

PER_JOB = 100  # expressions that Spark compiles into one class

FIXTURES = Path(__file__).parent.parent / "fixtures" / "expressions"


def texts(file: str) -> list[str]:
    return (FIXTURES / file).read_text().splitlines()


def differences(
    spark: SparkSession, table: pa.Table, types: Mapping[str, str], expressions: Sequence[str]
) -> list[str]:
    """Descriptions of the expressions whose type or values differ between Spark and Arrow."""
    ddl = ", ".join(f"`{c}` {t}" for c, t in types.items())
    frame = spark.createDataFrame(table, schema=ddl).coalesce(1)
    wrong = []
    for start in range(0, len(expressions), PER_JOB):
        part = expressions[start : start + PER_JOB]
        answers = frame.selectExpr(*(f"{text} AS c{n}" for n, text in enumerate(part)))
        kinds = [field.dataType.simpleString() for field in answers.schema]
        expected = answers.toArrow()
        for n, text in enumerate(part):
            compiled = compile(text, types)
            assert compiled is not None, text
            compiled = pickle.loads(pickle.dumps(compiled))
            if compiled.type != kinds[n]:
                wrong.append(f"{text}: type {compiled.type}, Spark's {kinds[n]}")
            elif detail := difference(in_parts(compiled, table), expected.column(n), arrow(compiled.type)):
                wrong.append(f"{text}: {detail}")
    return wrong


def in_parts(compiled: Expression, table: pa.Table) -> pa.ChunkedArray:
    """Evaluates 100 rows at a time, because the decimal algorithm depends on the digits of all rows in a batch."""
    parts = [compiled(table.slice(start, 100)) for start in range(0, len(table), 100)]
    return pa.chunked_array([chunk for part in parts for chunk in part.chunks], parts[0].type)


def difference(actual: pa.ChunkedArray, expected: pa.ChunkedArray, kind: pa.DataType) -> str | None:
    if actual.type != kind or len(actual) != len(expected):
        return f"{actual.type} of {len(actual)} rows"
    actual.validate(full=True)
    actual, expected = actual.combine_chunks(), expected.cast(kind).combine_chunks()
    if pa.types.is_floating(kind):
        same = np.array_equal(_bits(actual), _bits(expected)) and actual.is_null().equals(expected.is_null())
    else:
        same = actual.equals(expected)
    if same:
        return None
    pairs = zip(actual.to_pylist(), expected.to_pylist(), strict=True)
    row, pair = next((n, p) for n, p in enumerate(pairs) if repr(p[0]) != repr(p[1]))
    return f"row {row}: {pair[0]!r}, Spark's {pair[1]!r}"


def _bits(values: pa.Array) -> np.ndarray:
    numbers = values.fill_null(0).to_numpy(zero_copy_only=False)
    return np.where(np.isnan(numbers), np.nan, numbers).view(f"u{numbers.dtype.itemsize}")


@pytest.fixture(scope="module")
def catalyst(spark: SparkSession) -> SparkSession:
    """A session that evaluates expressions over a local table as it does over stored rows, without constant folding."""
    ours = session(spark)
    ours.conf.set("spark.sql.optimizer.excludedRules", "org.apache.spark.sql.catalyst.optimizer.ConvertToLocalRelation")
    return ours


def test_listed_expressions_equal_spark(catalyst: SparkSession) -> None:
    expressions = texts("compiled.sql")
    refused = [t for t in expressions if compile(t, TYPES) is None]
    assert refused == []
    assert differences(catalyst, rows(400, seed=1), TYPES, expressions) == []


def test_random_expressions_equal_spark(catalyst: SparkSession) -> None:
    generator = Texts(seed=2)
    candidates = [generator.any() for _ in range(1500)]
    compiled = list(dict.fromkeys(t for t in candidates if compile(t, TYPES) is not None))
    assert len(compiled) > 600
    assert differences(catalyst, rows(200, seed=3), TYPES, compiled) == []


def test_uncertain_expressions_are_left_to_spark() -> None:
    assert [t for t in texts("left_to_spark.sql") if compile(t, TYPES) is not None] == []


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("IF(n > 1, raise_error(CONCAT('n = ', CAST(n AS STRING), ', ', s)), n)", "n = 3, it's"),
        ("CASE WHEN n = 3 THEN 0 WHEN n IS NULL THEN raise_error('no n') ELSE n END", "no n"),
        ("CASE WHEN n > 1 THEN 0 WHEN n < 1 THEN 1 WHEN n IS NULL THEN 2 ELSE raise_error(s) END", "a"),
        ("IF(n > 1, raise_error('first'), n) = 3 AND n > 0", "first"),
        ("IF(n > 5, raise_error('no row takes this branch'), n)", None),
    ],
)
def test_an_error_is_raised_only_if_a_row_takes_its_branch(text: str, message: str | None) -> None:
    rows = pa.table({"n": pa.array([1, None, 3], pa.int32()), "s": ["a", "b", "it's"]})
    expression = compile(text, {"n": "int", "s": "string"})
    assert expression is not None
    if message is None:
        assert expression(rows).to_pylist() == [1, None, 3]
        return
    with pytest.raises(RowFailed) as caught:
        expression(rows)
    assert str(caught.value) == message
    assert expression(rows.slice(0, 0)).to_pylist() == []


def aggregate() -> Aggregate:
    """All aggregate calls maintained without a generic rule, over columns of every type."""
    scan = Scan("a", 1, tuple(COLUMNS), (0,), tuple(range(len(COLUMNS))))
    calls = [Call("count", (), False, "COUNT(*)", "bigint")]
    for position, column in enumerate(COLUMNS):
        for function in ("sum", "avg", "min", "max", "count", "count_if"):
            kind = _answer_type(function, column.type)
            call = Call(function, (position,), False, "", kind or "")
            if kind is not None and rule(call, COLUMNS) != "generic":
                calls.append(call)
    return Aggregate(scan, (), tuple(calls))


def _answer_type(function: str, kind: str) -> str | None:
    if function in ("min", "max"):
        return kind
    if function == "count" or (function == "count_if" and kind == "boolean"):
        return "bigint"
    if function == "count_if" or kind in ("string", "date", "timestamp", "boolean", "binary"):
        return None
    if kind.startswith("decimal"):
        p, s = (int(n) for n in kind[8:-1].split(","))
        extra = (10, 0) if function == "sum" else (4, 4)
        return f"decimal({min(p + extra[0], 38)},{min(s + extra[1], 38)})"
    return "double" if function == "avg" or kind in ("float", "double") else "bigint"


def test_sums_and_answers_of_aggregates_equal_spark(catalyst: SparkSession) -> None:
    node = aggregate()
    slots, answers = plan_slots(node)
    types = {f"_{n}": c.type for n, c in enumerate(COLUMNS)} | {"_weight": "bigint"}
    table = rows(200, seed=4)
    inputs = table.rename_columns([f"_{n}" for n in range(len(COLUMNS))]).append_column("_weight", table["_weight"])
    assert [c.sql for c in slots.sums if compile(c.sql, types, c.type) is None] == []
    assert differences(catalyst, inputs, types, [c.sql for c in slots.sums]) == []
    stored = [Column("n", "bigint"), *(Column(f"s{n}", c.type) for n, c in enumerate(slots.sums))]
    stored += [Column(f"f{n}", "double") for n in range(len(slots.floats))]
    for n, position in enumerate(slots.values):
        stored += [Column(f"{end}{n}", COLUMNS[position].type) for end in ("lo", "hi")] + [Column(f"d{n}", "bigint")]
    kinds = {c.name: c.type for c in stored}
    pairs = zip(answers, node.calls, strict=True)
    assert [a for a, call in pairs if compile(a, kinds, call.type) is None] == []
    assert differences(catalyst, values(stored, 200, seed=5), kinds, answers) == []


def test_an_expected_type_that_differs_from_spark_is_refused() -> None:
    assert compile("p + 1", TYPES, "decimal(13,2)") is not None
    assert compile("p + 1", TYPES, "decimal(14,2)") is None


def test_any_shape_of_rows() -> None:
    table = rows(60, seed=6)
    parts = pa.concat_tables([table.slice(0, 7), table.slice(7, 0), table.slice(7)])
    for text in texts("compiled.sql"):
        compiled = compile(text, TYPES)
        assert compiled is not None
        whole, empty = compiled(table), compiled(table.slice(0, 0))
        assert (len(empty), name(empty.type)) == (0, compiled.type)
        assert difference(compiled(parts), whole, whole.type) is None, text
        batch = table.to_batches()[0].slice(9, 20)
        assert difference(pa.chunked_array([compiled(batch)]), whole.slice(9, 20), whole.type) is None, text
