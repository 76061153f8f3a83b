"""Rows on their way from the task that made them to the task of their shard.

    rows ─► pack ─► (task, batch of rows as bytes) ─► Spark's shuffle ─► unpack ─► rows

Spark moves a few large values instead of every row: what it would take a row apart for, and put it together again
in the other task, is more work than most operators are. Rows go as they came only where Spark has to hash them, or
where one of its own operators made them.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import pyarrow as pa

from tailrace.delta import SHARD
from tailrace.maintain.program import Tables, Task
from tailrace.store.place import place

PACKED = "_packed"
FIELDS = ((SHARD, "int"), (PACKED, "binary"))  # what travels
PIECE = 4 << 20  # bytes in a batch, or so


@dataclass(frozen=True)
class Pack:
    """Batches of rows, each with the number of the task that it is for.

    `by` are the columns whose hash says in which of the `shards` a row belongs; a task has every `tasks`-th of them.
    """

    by: tuple[str, ...]
    shards: int
    tasks: int

    def run(self, inputs: Tables, task: Task) -> pa.Table | None:
        (rows,) = inputs
        if rows is None or not rows.num_rows:
            return None
        shards = place([rows.column(n) for n in self.by], self.shards, rows.num_rows)
        rows = rows.append_column(SHARD, pa.array(shards)).combine_chunks()
        numbers: list[int] = []
        pieces: list[pa.Array] = []
        for number in range(self.tasks):
            for batch in _pieces(rows.filter(pa.array(shards % self.tasks == number))):
                numbers.append(number)
                pieces.append(pa.array([batch.serialize().to_pybytes()], pa.binary()))
        # a chunk for each batch: all of them may be more than one array holds
        chunks = pa.chunked_array([pa.array([n], pa.int32()) for n in numbers])
        return pa.Table.from_arrays([chunks, pa.chunked_array(pieces)], names=[SHARD, PACKED])


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
    size = max(1, rows.num_rows * PIECE // max(1, rows.nbytes))
    yield from rows.combine_chunks().to_batches(max_chunksize=size)
