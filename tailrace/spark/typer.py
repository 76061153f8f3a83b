"""Finds the types of expressions, by Spark's own analysis."""

from __future__ import annotations

from collections.abc import Sequence

from pyspark.sql import DataFrame, SparkSession

from tailrace.delta import column
from tailrace.plan.typing import ExpressionFault
from tailrace.rules.arrow.compiled import compile
from tailrace.spark.failures import FAILURES, reason
from tailrace.spark.type_names import type_name
from tailrace.types import Column

MAX_CACHED = 10_000
_CACHE: dict[tuple[tuple[str, ...], tuple[str, ...]], tuple[str, ...]] = {}  # column types, expressions: their types


class SparkTyper:
    """Asks Spark for the types of expressions that tasks cannot evaluate, and caches them."""

    def __init__(self, spark: SparkSession) -> None:
        self._spark = spark

    def types(self, columns: Sequence[Column], expressions: Sequence[str]) -> list[str]:
        column_types = {column(i): c.type for i, c in enumerate(columns)}
        cache_key = (tuple(column_types.values()), tuple(expressions))
        if cache_key not in _CACHE:
            compiled = [compile(e, column_types) for e in expressions]
            types = [c.type for c in compiled if c is not None]
            if len(types) < len(expressions):
                types = self._ask_spark(columns, expressions)
            if len(_CACHE) >= MAX_CACHED:
                _CACHE.clear()
            _CACHE[cache_key] = tuple(types)
        return list(_CACHE[cache_key])

    def _ask_spark(self, columns: Sequence[Column], expressions: Sequence[str]) -> list[str]:
        """Raises ExpressionFault with the index of the first expression that is wrong on its own."""
        empty = self._empty_frame(columns)
        try:
            return self._analyze(empty, expressions)
        except FAILURES as fault:
            for index, expression in enumerate(expressions):
                try:
                    self._analyze(empty, [expression])
                except FAILURES as error:
                    raise ExpressionFault(index=index, message=reason(error)) from None
            raise ExpressionFault(index=None, message=reason(fault)) from None

    def _empty_frame(self, columns: Sequence[Column]) -> DataFrame:
        nulls = [f"CAST(NULL AS {c.type}) AS {column(i)}" for i, c in enumerate(columns)]
        try:
            return self._spark.range(0).selectExpr(*nulls)
        except FAILURES as error:
            message = f"Spark cannot parse the type of a column ({reason(error)}); rename the fields of the struct"
            raise ExpressionFault(index=None, message=message) from None

    @staticmethod
    def _analyze(empty: DataFrame, expressions: Sequence[str]) -> list[str]:
        selected = empty.selectExpr(*(f"{e} AS c{i}" for i, e in enumerate(expressions)))
        return [type_name(f.dataType) for f in selected.schema]
