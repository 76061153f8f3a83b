"""Compiles Spark SQL expressions to functions over Arrow batches, evaluated inside a task.

    compile("_1 * (1 - _2)", {"_1": "decimal(12,2)", "_2": "decimal(12,2)"})(batch)

A small epoch spends most of its time moving rows between the JVM and Python. Compiled expressions avoid that, and rows
that a filter drops never reach the JVM. Spark defines what an expression means: tests compare compiled expressions with
Spark, type and bits. For any other expression `compile` returns None, and the caller evaluates it with Spark.
Sessions have ANSI mode off and the time zone UTC (`spark/session.py`).
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import lru_cache

import pyarrow as pa

from tailrace.errors import SyntaxFault
from tailrace.rules.arrow.coercion import normalise_type
from tailrace.rules.arrow.translate import translate
from tailrace.rules.arrow.tree import VOID, Node, NotCompiled, column_names
from tailrace.types import arrow


@dataclass(frozen=True)
class Expression:
    """A compiled expression: a function from rows to an array of `type`, one value per row."""

    node: Node
    columns: tuple[str, ...]

    @property
    def type(self) -> str:
        return self.node.type

    def __call__(self, table: pa.Table | pa.RecordBatch) -> pa.Array | pa.ChunkedArray:
        if isinstance(table, pa.RecordBatch):
            return self._evaluate(table)
        if not self.columns:
            return pa.chunked_array([pa.repeat(self.node.evaluate(None), table.num_rows)])
        batches = table.select(self.columns).combine_chunks().to_batches()
        return pa.chunked_array([self._evaluate(b) for b in batches], arrow(self.type))

    def _evaluate(self, batch: pa.RecordBatch) -> pa.Array:
        value = self.node.evaluate(batch)
        return pa.repeat(value, batch.num_rows) if isinstance(value, pa.Scalar) else value


def compile(text: str, columns: Mapping[str, str], type: str | None = None) -> Expression | None:
    """Compiles an expression over columns (name → Spark type).

    None if the result might differ from Spark's, or if its type is not the given `type`.
    """
    return _compile_cached(text, tuple(columns.items()), None if type is None else normalise_type(type))


@lru_cache(maxsize=4096)
def _compile_cached(text: str, columns: tuple[tuple[str, str], ...], expected: str | None) -> Expression | None:
    try:
        node = translate(text, dict(columns))
    except (NotCompiled, SyntaxFault, RecursionError):
        return None
    if node.type == VOID or expected not in (None, node.type):
        return None
    return Expression(node, tuple(sorted(column_names(node))))
