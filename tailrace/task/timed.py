"""The operators that read the time of the epoch: rows that changed count now, rows whose border was crossed change."""

from __future__ import annotations

from dataclasses import dataclass

import pyarrow as pa

from tailrace.rules.temporal import AT, Crossed
from tailrace.task.program import Linear, Tables, Task


@dataclass(frozen=True)
class Stamp(Linear):
    """Adds the time of the epoch to each row, before its weight. `output` are the columns then."""

    output: pa.Schema

    def run(self, inputs: Tables, task: Task) -> pa.Table | None:
        (rows,) = inputs
        if rows is None:
            return None
        times = pa.repeat(pa.scalar(task.work.time, pa.int64()), rows.num_rows)
        return rows.add_column(rows.num_columns - 1, AT, times).cast(self.output)  # Spark declares other nullability


@dataclass(frozen=True)
class ReadCrossed:
    """Reads the rows of a temporal filter whose border is in the epoch.

    A task reads the shards of its nodes: those in which rows of these nodes are, if both are placed by the same key.
    """

    rule: Crossed

    def run(self, inputs: Tables, task: Task) -> pa.Table | None:
        work, store = task.work, task.store
        shards = [s for s in range(store.shards) if s % store.nodes in task.nodes]
        parts = [self.rule.crossed(task.before, shard, work.earlier, work.time) for shard in shards]
        found = [part for part in parts if part is not None]
        return pa.concat_tables(found) if found else None
