"""Turns fragments into DataFrames, and shuffles rows to the tasks of their shards."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import reduce

import pyarrow as pa
from pyspark.errors import PySparkException
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F  # noqa: N812

from tailrace.delta import SHARD, Fields
from tailrace.spark.fragments import Fragment, arrow_schema, link
from tailrace.spark.frames import frame
from tailrace.store.base import Store
from tailrace.task import program
from tailrace.task.assignment import PROPERTY, Assignment, AssignmentSource
from tailrace.task.exchange import PACKED_FIELDS, Pack, Unpack
from tailrace.task.program import INPUT, fed_name

HASH_OF_NO_COLUMNS = 42  # the seed of Spark's hash


@dataclass(frozen=True)
class Stages:
    """The stages of one job. Each has `tasks` tasks that divide the shards; with a single task nothing is shuffled."""

    spark: SparkSession
    store: Store
    tasks: int
    assignment_source: AssignmentSource

    @property
    def shards(self) -> int:
        return self.store.shards

    @property
    def single(self) -> bool:
        return self.tasks == 1

    def merge(self, frames: Sequence[DataFrame]) -> DataFrame:
        if len(frames) == 1:
            return frames[0]
        union = reduce(DataFrame.union, frames)
        return union.coalesce(1) if self.single else union

    def shard_sql(self, names: Sequence[str]) -> str:
        """SQL for a row's shard: the hash of its values in the named columns."""
        if not names:
            return f"CAST({HASH_OF_NO_COLUMNS % self.shards} AS INT) AS {SHARD}"
        return f"CAST(pmod(hash({', '.join(names)}), {self.shards}) AS INT) AS {SHARD}"

    def shuffle(self, rows: DataFrame) -> DataFrame:
        if self.single:
            return rows
        return rows.repartitionById(self.tasks, F.expr(f"pmod({SHARD}, {self.tasks})"))

    def exchange(self, fragment: Fragment, by: tuple[str, ...], *, shuffle: bool) -> Fragment:
        """Sends a fragment's rows to the tasks of their shards, packed as Arrow batches.

        Without `shuffle` the rows are only packed: `_merge_inputs` shuffles them together with other inputs.
        """
        pack = Pack(fragment.schema, by, self.shards, self.tasks)
        packed = self.to_frame([Fragment(pack, (fragment,), PACKED_FIELDS)])
        received = Fragment(self.shuffle(packed) if shuffle else packed, (), PACKED_FIELDS)
        fields = (*fragment.fields, (SHARD, "int"))
        return Fragment(Unpack(arrow_schema(fields)), (received,), fields)

    def _merge_inputs(self, frames: Sequence[DataFrame], fields: Sequence[Fields]) -> DataFrame:
        """Merges the input frames of a program into one, shuffled by shard. A single frame stays as it is.

        Each row has a tag, the number of its input. Each input has its own columns, NULL in the rows of others.
        """
        if len(frames) == 1:
            return frames[0]
        parts = []
        for number, rows in enumerate(frames):
            columns = [
                f"{name} AS {fed_name(n, name)}" if n == number else f"CAST(NULL AS {kind}) AS {fed_name(n, name)}"
                for n, own in enumerate(fields)
                for name, kind in own
                if name != SHARD
            ]
            shard = SHARD if SHARD in rows.columns else f"CAST(NULL AS INT) AS {SHARD}"
            parts.append(rows.selectExpr(*columns, f"CAST({number} AS INT) AS {INPUT}", shard))
        return self.shuffle(self.merge(parts))

    def to_frame(self, roots: Sequence[Fragment]) -> DataFrame:
        """The frame whose tasks run fragments with equal output columns as one program."""
        linked, feeds = link(roots)
        schema = ", ".join(f"{name} {kind}" for name, kind in roots[0].fields)
        # Locals only: Spark pickles the closures below, and `self` holds the session.
        store, nodes, source = self.store.ref, self.store.nodes, self.assignment_source
        if not feeds:
            one_task_per_node = not self.single

            def read(partition: int) -> Iterator[pa.RecordBatch]:
                return program.read(linked, store, [partition] if one_task_per_node else range(nodes), source)

            return frame(self.spark, nodes if one_task_per_node else 1, read, schema)

        def run(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
            return program.run(batches, linked, store, nodes, source)

        frames = [f.operator for f in feeds if isinstance(f.operator, DataFrame)]
        return self._merge_inputs(frames, [f.fields for f in feeds]).mapInArrow(run, schema)


def set_assignment(spark: SparkSession, assignment: Assignment) -> AssignmentSource:
    """Attaches an assignment to the jobs that this thread starts next, or (on Spark Connect) to their plans."""
    try:
        spark.sparkContext.setLocalProperty(PROPERTY, assignment.to_json())
    except PySparkException:  # Spark Connect has no context
        return AssignmentSource(assignment)
    return AssignmentSource()
