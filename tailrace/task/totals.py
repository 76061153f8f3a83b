"""Sums a log range by group while reading it.

    Σ x · weight  per group  =  Σ over batches of the batch's own sums

An aggregate over plain columns of a table needs only sums, not the rows of the log. Arrow sums each batch, so Spark
gets one row per group instead of two per operation.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Literal

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from tailrace import types
from tailrace.delta import WEIGHT, column


@dataclass(frozen=True)
class Total:
    """One sum: of a column (`sum`), or the number of rows where no column in `args` is NULL (`count`)."""

    kind: Literal["sum", "count"]
    args: tuple[int, ...]
    type: str


@dataclass(frozen=True)
class Totals:
    """Group columns and sums, by position in the batches."""

    groups: tuple[int, ...]
    sums: tuple[Total, ...]

    @property
    def _group_names(self) -> list[str]:
        return [column(i) for i in range(len(self.groups))]

    def over(self, batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        # Skip empty batches: without groups, Arrow sums them to a row of NULLs.
        parts = [self._sum_by_group(self._contributions(batch)) for batch in batches if batch.num_rows]
        if parts:
            whole = self._sum_by_group(pa.concat_tables(parts)) if len(parts) > 1 else parts[0]
            yield from whole.combine_chunks().to_batches()

    def _contributions(self, batch: pa.RecordBatch) -> pa.Table:
        weights = batch.column(batch.num_columns - 1).cast(pa.int64())
        negative = pa.array(weights.to_numpy() < 0)
        arrays = [batch.column(p) for p in self.groups]
        for total in self.sums:
            values = batch.column(total.args[0])
            if total.kind == "sum":
                kind = types.arrow(total.type)
                values = values.cast(kind) if pa.types.is_integer(kind) else values
                arrays.append(pc.if_else(negative, pc.negate(values), values))
            else:
                counted = np.ones(batch.num_rows, dtype=bool)
                for arg in total.args:
                    counted &= batch.column(arg).is_valid().to_numpy(zero_copy_only=False)
                arrays.append(pa.array(np.where(counted, weights.to_numpy(), 0)))
        return pa.Table.from_arrays([*arrays, weights], names=self._all_names())

    def _all_names(self) -> list[str]:
        return [*self._group_names, *(f"s{i}" for i in range(len(self.sums))), WEIGHT]

    def _sum_by_group(self, rows: pa.Table) -> pa.Table:
        summed = [name for name in rows.column_names if name not in self._group_names]
        grouped = rows.group_by(self._group_names, use_threads=False).aggregate([(name, "sum") for name in summed])
        renamed = grouped.rename_columns(
            [n.removesuffix("_sum") if n not in self._group_names else n for n in grouped.column_names]
        )
        ordered = renamed.select(self._all_names())
        for at, total in enumerate(self.sums, len(self.groups)):
            kind = types.arrow(total.type)
            if ordered.schema.field(at).type != kind:
                ordered = ordered.set_column(at, f"s{at - len(self.groups)}", ordered.column(at).cast(kind))
        return ordered
