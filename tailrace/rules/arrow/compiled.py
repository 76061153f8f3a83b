"""Spark SQL expressions evaluated by Arrow, inside a task.

    compile("_1 * (1 - _2)", {"_1": "decimal(12,2)", "_2": "decimal(12,2)"})(batch)

An epoch of few rows spends its time between the JVM and Python, and rows that a filter drops need not reach
the JVM at all. Only Spark says what an expression means; so what is compiled here is compared with Spark, type
and bits, by tests, and of all else `compile` says None: the caller then gives the expression to Spark.
Sessions have ANSI mode off and the time zone UTC (`spark/session.py`).
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import lru_cache

import pyarrow as pa

from tailrace.errors import SyntaxFault
from tailrace.rules.arrow.coercion import normal
from tailrace.rules.arrow.translate import translate
from tailrace.rules.arrow.tree import VOID, Node, NotCompiled, names
from tailrace.types import arrow


@dataclass(frozen=True)
class Expression:
    """A compiled expression: a function from rows to one array, of as many rows and of its type."""

    node: Node
    columns: tuple[str, ...]

    @property
    def type(self) -> str:
        return self.node.type

    def __call__(self, table: pa.Table | pa.RecordBatch) -> pa.Array | pa.ChunkedArray:
        if isinstance(table, pa.RecordBatch):
            return self._array(table)
        if not self.columns:
            return pa.chunked_array([pa.repeat(self.node.value(None), table.num_rows)])
        batches = table.select(self.columns).combine_chunks().to_batches()
        return pa.chunked_array([self._array(b) for b in batches], arrow(self.type))

    def _array(self, batch: pa.RecordBatch) -> pa.Array:
        found = self.node.value(batch)
        return pa.repeat(found, batch.num_rows) if isinstance(found, pa.Scalar) else found


def compile(text: str, columns: Mapping[str, str], type: str | None = None) -> Expression | None:
    """The expression over these columns (name → Spark type) as Arrow kernels.

    None: its meaning in Spark is not certain to be kept, or its type would not be `type`, if that is given.
    """
    return _compiled(text, tuple(columns.items()), None if type is None else normal(type))


@lru_cache(maxsize=4096)
def _compiled(text: str, columns: tuple[tuple[str, str], ...], expected: str | None) -> Expression | None:
    try:
        node = translate(text, dict(columns))
    except (NotCompiled, SyntaxFault, RecursionError):
        return None
    if node.type == VOID or expected not in (None, node.type):
        return None
    return Expression(node, tuple(sorted(names(node))))
