"""Types of expressions, as Spark itself gives them."""

from __future__ import annotations

import re
from collections.abc import Sequence

from py4j.protocol import Py4JError
from pyspark.errors import PySparkException
from pyspark.sql import DataFrame, SparkSession

from tailrace.delta import column
from tailrace.maintain.expressions import compile
from tailrace.plan.typer import ExpressionFault
from tailrace.types import Column

REMEMBERED = 10_000
_ANSWERS: dict[tuple[tuple[str, ...], tuple[str, ...]], tuple[str, ...]] = {}

# What a job of Spark's may raise; the second for its own mistakes (a ClassCastException in the optimizer) and for
# processes that it lost, the third when there is no JVM any more.
FAILURES = (PySparkException, Py4JError, ConnectionError)
_TASK = re.compile(r".*\(TID \d+\) \([^)]*\): ")  # in front of what a task failed with
_CLASS = re.compile(r"^[\w.$]+(?:Exception|Error): ")


def reason(error: Exception) -> str:
    """The first sentence of what Spark says, without its query context; of a failed task, what it raised."""
    lines = str(error).strip().split("\n")
    if "exception was thrown from the Python worker" in lines[0]:
        raised = [line for line in lines[1:] if line[:1].isalpha() and ":" in line and "Traceback" not in line]
        return raised[-1].split(" SQLSTATE:")[0].strip() if raised else lines[0]
    if "error occurred while calling" in lines[0] and len(lines) > 1:
        # The first line names the method that was called, the second the exception: its class and its message.
        return _CLASS.sub("", _TASK.sub("", lines[1].removeprefix(": "))).split(" SQLSTATE:")[0]
    return lines[0].split(" SQLSTATE:")[0]


class SparkTyper:
    """Asks Spark; but not for what tasks evaluate themselves, whose types are known, nor for the same twice."""

    def __init__(self, spark: SparkSession) -> None:
        self._spark = spark

    def types(self, columns: Sequence[Column], expressions: Sequence[str]) -> list[str]:
        kinds = {column(i): c.type for i, c in enumerate(columns)}
        asked = (tuple(kinds.values()), tuple(expressions))
        if asked not in _ANSWERS:
            compiled = [compile(e, kinds) for e in expressions]
            known = [c.type for c in compiled if c is not None]
            found = known if len(known) == len(expressions) else self._asked(columns, expressions)
            if len(_ANSWERS) >= REMEMBERED:
                _ANSWERS.clear()
            _ANSWERS[asked] = tuple(found)
        return list(_ANSWERS[asked])

    def _asked(self, columns: Sequence[Column], expressions: Sequence[str]) -> list[str]:
        empty = self._empty(columns)
        try:
            return self._types(empty, expressions)
        except FAILURES as fault:
            for index, expression in enumerate(expressions):
                try:
                    self._types(empty, [expression])
                except FAILURES as error:
                    raise ExpressionFault(index=index, message=reason(error)) from None
            raise ExpressionFault(index=None, message=reason(fault)) from None

    def _empty(self, columns: Sequence[Column]) -> DataFrame:
        nulls = [f"CAST(NULL AS {c.type}) AS {column(i)}" for i, c in enumerate(columns)]
        try:
            return self._spark.range(0).selectExpr(*nulls)
        except FAILURES as error:
            message = f"a type is not one that Spark reads again ({reason(error)}); rename the fields of the struct"
            raise ExpressionFault(index=None, message=message) from None

    @staticmethod
    def _types(empty: DataFrame, expressions: Sequence[str]) -> list[str]:
        selected = empty.selectExpr(*(f"{e} AS c{i}" for i, e in enumerate(expressions)))
        return [f.dataType.simpleString() for f in selected.schema]
