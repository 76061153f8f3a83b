"""Types of expressions, as Spark itself gives them."""

from __future__ import annotations

from collections.abc import Sequence

from pyspark.errors import PySparkException
from pyspark.sql import DataFrame, SparkSession

from tailrace.delta import column
from tailrace.plan.typer import ExpressionFault
from tailrace.types import Column


def reason(error: Exception) -> str:
    """The first sentence of what Spark says, without its query context; of a failed task, what it raised."""
    lines = str(error).strip().split("\n")
    if "exception was thrown from the Python worker" in lines[0]:
        raised = [line for line in lines[1:] if line[:1].isalpha() and ":" in line and "Traceback" not in line]
        return raised[-1].split(" SQLSTATE:")[0].strip() if raised else lines[0]
    return lines[0].split(" SQLSTATE:")[0]


class SparkTyper:
    def __init__(self, spark: SparkSession) -> None:
        self._spark = spark

    def types(self, columns: Sequence[Column], expressions: Sequence[str]) -> list[str]:
        empty = self._spark.range(0).selectExpr(
            *(f"CAST(NULL AS {c.type}) AS {column(i)}" for i, c in enumerate(columns))
        )
        try:
            return self._types(empty, expressions)
        except PySparkException:
            for index, expression in enumerate(expressions):
                try:
                    self._types(empty, [expression])
                except PySparkException as error:
                    raise ExpressionFault(index=index, message=reason(error)) from None
            raise

    @staticmethod
    def _types(empty: DataFrame, expressions: Sequence[str]) -> list[str]:
        selected = empty.selectExpr(*(f"{e} AS c{i}" for i, e in enumerate(expressions)))
        return [f.dataType.simpleString() for f in selected.schema]
