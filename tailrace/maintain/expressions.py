"""Expressions that a task evaluates itself; all others are Spark's."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import pyarrow as pa


@dataclass(frozen=True)
class Expression:
    """A column as it is."""

    name: str
    type: str

    def __call__(self, rows: pa.Table) -> pa.ChunkedArray:
        return rows.column(self.name)


def compile(text: str, columns: Mapping[str, str], type: str | None = None) -> Expression | None:
    """The expression, None when only Spark can evaluate it."""
    found = columns.get(text)
    return Expression(text, found) if found is not None and type in (None, found) else None
