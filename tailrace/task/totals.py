"""Sums of a log range by group, taken where the log is read.

    Σ x · weight  per group  =  Σ over batches of the batch's own sums

An aggregate over plain columns of a table needs no row of the log, only sums. Taking them in Arrow, a batch
at a time, sends a row per group to Spark instead of two per operation.
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
    """One sum: of a column's values, or of how many rows have values in some columns."""

    kind: Literal["sum", "count"]
    args: tuple[int, ...]
    type: str


@dataclass(frozen=True)
class Totals:
    """Group columns and sums, all by position in the batches that are read."""

    groups: tuple[int, ...]
    sums: tuple[Total, ...]

    @property
    def _names(self) -> list[str]:
        return [column(i) for i in range(len(self.groups))]

    def over(self, batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        # of no rows Arrow's sums without groups are one row of NULLs
        parts = [self._grouped(self._contributions(batch)) for batch in batches if batch.num_rows]
        if parts:
            whole = self._grouped(pa.concat_tables(parts)) if len(parts) > 1 else parts[0]
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
                there = np.ones(batch.num_rows, dtype=bool)
                for arg in total.args:
                    there &= batch.column(arg).is_valid().to_numpy(zero_copy_only=False)
                arrays.append(pa.array(np.where(there, weights.to_numpy(), 0)))
        return pa.Table.from_arrays([*arrays, weights], names=self._all_names())

    def _all_names(self) -> list[str]:
        return [*self._names, *(f"s{i}" for i in range(len(self.sums))), WEIGHT]

    def _grouped(self, rows: pa.Table) -> pa.Table:
        summed = [name for name in rows.column_names if name not in self._names]
        grouped = rows.group_by(self._names, use_threads=False).aggregate([(name, "sum") for name in summed])
        renamed = grouped.rename_columns(
            [n.removesuffix("_sum") if n not in self._names else n for n in grouped.column_names]
        )
        ordered = renamed.select(self._all_names())
        for at, total in enumerate(self.sums, len(self.groups)):
            wanted = types.arrow(total.type)
            if ordered.schema.field(at).type != wanted:
                ordered = ordered.set_column(at, f"s{at - len(self.groups)}", ordered.column(at).cast(wanted))
        return ordered
