"""Types of expressions, as Spark itself gives them."""

from __future__ import annotations

from collections.abc import Sequence

from pyspark.sql import DataFrame, SparkSession

from tailrace.delta import column
from tailrace.plan.typing import ExpressionFault
from tailrace.rules.arrow.compiled import compile
from tailrace.spark.failures import FAILURES, reason
from tailrace.types import Column

REMEMBERED = 10_000
_ANSWERS: dict[tuple[tuple[str, ...], tuple[str, ...]], tuple[str, ...]] = {}


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
