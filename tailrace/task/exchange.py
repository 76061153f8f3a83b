"""Rows on their way from the task that made them to the task of their shard.

    rows ─► pack ─► (task, batch of rows as bytes) ─► Spark's shuffle ─► unpack ─► rows

Spark moves a few large values instead of every row: what it would take a row apart for, and put it together again
in the other task, is more work than most operators are. Rows go as they came only where Spark has to hash them, or
where one of its own operators made them.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
import pyarrow as pa

from tailrace.delta import SHARD
from tailrace.task.program import Linear, Tables, Task, add_shards

PACKED = "_packed"
PACKED_FIELDS = ((SHARD, "int"), (PACKED, "binary"))  # what travels: a shard of the task it is for, and a batch
PIECE = 4 << 20  # bytes in a batch, or so


@dataclass(frozen=True)
class Pack(Linear):
    """Batches of rows, each with the first shard of the task that it is for.

    `by` are the columns whose hash says in which of the `shards` a row belongs; a task has every `tasks`-th of them.
    """

    schema: pa.Schema
    by: tuple[str, ...]
    shards: int
    tasks: int

    def run(self, inputs: Tables, task: Task) -> pa.Table | None:
        (rows,) = inputs
        if rows is None or not rows.num_rows:
            return None
        rows = rows.select(self.schema.names).cast(self.schema)  # the other side reads bytes, and trusts the schema
        rows = add_shards(rows, self.by, self.shards)
        tasks = (rows.column(SHARD).to_numpy() % self.tasks).astype(np.uint16)
        rows = rows.take(pa.array(np.argsort(tasks, kind="stable")))
        sizes = np.bincount(tasks, minlength=self.tasks)
        numbers: list[pa.Array] = []
        pieces: list[pa.Array] = []  # an array for each: all of them may be more than one array holds
        for number, (end, size) in enumerate(zip(np.cumsum(sizes).tolist(), sizes.tolist(), strict=True)):
            for batch in _pieces(rows.slice(end - size, size)):
                numbers.append(pa.array([number], pa.int32()))
                pieces.append(pa.array([batch.serialize().to_pybytes()], pa.binary()))
        return pa.Table.from_arrays([pa.chunked_array(numbers), pa.chunked_array(pieces)], names=[SHARD, PACKED])


@dataclass(frozen=True)
class Unpack:
    """The rows of batches, with their shards."""

    schema: pa.Schema

    def run(self, inputs: Tables, task: Task) -> pa.Table | None:
        (packed,) = inputs
        if packed is None:
            return None
        batches = [pa.ipc.read_record_batch(cell.as_buffer(), self.schema) for cell in packed.column(PACKED)]
        return pa.Table.from_batches(batches, self.schema)


def _pieces(rows: pa.Table) -> Iterator[pa.RecordBatch]:
    """Batches none of which is much larger than wanted, unless one row is; wide rows may stand together."""
    if rows.nbytes > PIECE and rows.num_rows > 1:
        half = rows.num_rows // 2
        yield from _pieces(rows.slice(0, half))
        yield from _pieces(rows.slice(half))
    else:
        yield from rows.combine_chunks().to_batches()
