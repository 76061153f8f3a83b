"""The exchange: sends rows through Spark's shuffle to the tasks of their shards, packed into large batches.

    rows ─► pack ─► (task, batch of rows as bytes) ─► Spark's shuffle ─► unpack ─► rows

Spark shuffles a few large values instead of single rows: converting rows to Spark's format and back costs more than
most operators. Rows are shuffled unpacked only if Spark must hash them or if a Spark operator made them.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
import pyarrow as pa

from tailrace.delta import SHARD
from tailrace.task.program import Linear, Tables, Task, add_shards

PACKED = "_packed"
PACKED_FIELDS = ((SHARD, "int"), (PACKED, "binary"))  # the first shard of the receiving task, and a batch
PIECE = 4 << 20  # approximate size of a batch in bytes


@dataclass(frozen=True)
class Pack(Linear):
    """Packs rows into batches, each with the first shard of the task that receives it.

    The hash of the columns `by` determines a row's shard. Task n of `tasks` owns the shards n, n + tasks, ...
    """

    schema: pa.Schema
    by: tuple[str, ...]
    shards: int
    tasks: int

    def run(self, inputs: Tables, task: Task) -> pa.Table | None:
        (rows,) = inputs
        if rows is None or not rows.num_rows:
            return None
        rows = rows.select(self.schema.names).cast(self.schema)  # Unpack assumes this schema: bytes carry none
        rows = add_shards(rows, self.by, self.shards)
        tasks = (rows.column(SHARD).to_numpy() % self.tasks).astype(np.uint16)
        rows = rows.take(pa.array(np.argsort(tasks, kind="stable")))
        sizes = np.bincount(tasks, minlength=self.tasks)
        numbers: list[pa.Array] = []
        pieces: list[pa.Array] = []  # one array per batch: one array cannot hold more than 2 GB
        for number, (end, size) in enumerate(zip(np.cumsum(sizes).tolist(), sizes.tolist(), strict=True)):
            for batch in _split(rows.slice(end - size, size)):
                numbers.append(pa.array([number], pa.int32()))
                pieces.append(pa.array([batch.serialize().to_pybytes()], pa.binary()))
        return pa.Table.from_arrays([pa.chunked_array(numbers), pa.chunked_array(pieces)], names=[SHARD, PACKED])


@dataclass(frozen=True)
class Unpack:
    """Unpacks batches to rows; the schema includes `_shard`."""

    schema: pa.Schema

    def run(self, inputs: Tables, task: Task) -> pa.Table | None:
        (packed,) = inputs
        if packed is None:
            return None
        batches = [pa.ipc.read_record_batch(cell.as_buffer(), self.schema) for cell in packed.column(PACKED)]
        return pa.Table.from_batches(batches, self.schema)


def _split(rows: pa.Table) -> Iterator[pa.RecordBatch]:
    """Batches of at most PIECE bytes, unless a single row is larger. Halves recursively: wide rows may be adjacent."""
    if rows.nbytes > PIECE and rows.num_rows > 1:
        half = rows.num_rows // 2
        yield from _split(rows.slice(0, half))
        yield from _split(rows.slice(half))
    else:
        yield from rows.combine_chunks().to_batches()
