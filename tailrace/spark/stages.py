"""Putting deltas where their shards are, and running programs there."""

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

HASH_OF_NOTHING = 42  # Spark's hash of no columns is its seed


@dataclass(frozen=True)
class Stages:
    """Tasks of one job. `tasks` of a stage divide the shards among them; with one task nothing is shuffled."""

    spark: SparkSession
    store: Store
    tasks: int
    handed: AssignmentSource

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

    def shard(self, names: Sequence[str]) -> str:
        """SQL of the shard that a row belongs to by its values in some columns."""
        if not names:
            return f"CAST({HASH_OF_NOTHING % self.shards} AS INT) AS {SHARD}"
        return f"CAST(pmod(hash({', '.join(names)}), {self.shards}) AS INT) AS {SHARD}"

    def shuffle(self, rows: DataFrame) -> DataFrame:
        if self.single:
            return rows
        return rows.repartitionById(self.tasks, F.expr(f"pmod({SHARD}, {self.tasks})"))

    def sent(self, fragment: Fragment, by: tuple[str, ...], *, shuffled: bool) -> Fragment:
        """What a fragment gives, in the tasks of its rows' shards; unless `shuffled`, that is left to be done."""
        packed = self.run([Fragment(Pack(fragment.schema, by, self.shards, self.tasks), (fragment,), PACKED_FIELDS)])
        coming = Fragment(self.shuffle(packed) if shuffled else packed, (), PACKED_FIELDS)
        fields = (*fragment.fields, (SHARD, "int"))
        return Fragment(Unpack(arrow_schema(fields)), (coming,), fields)

    def tagged(self, frames: Sequence[DataFrame], fields: Sequence[Fields]) -> DataFrame:
        """Several frames as one, each with columns of its own but for the shard, by which they are shuffled."""
        if len(frames) == 1:
            return frames[0]
        parts = []
        for number, rows in enumerate(frames):
            picked = [
                f"{name} AS {fed_name(n, name)}" if n == number else f"CAST(NULL AS {kind}) AS {fed_name(n, name)}"
                for n, own in enumerate(fields)
                for name, kind in own
                if name != SHARD
            ]
            shard = SHARD if SHARD in rows.columns else f"CAST(NULL AS INT) AS {SHARD}"
            parts.append(rows.selectExpr(*picked, f"CAST({number} AS INT) AS {INPUT}", shard))
        return self.shuffle(self.merge(parts))

    def run(self, roots: Sequence[Fragment]) -> DataFrame:
        """The frame whose tasks run these fragments, which all give the same columns."""
        linked, feeds = link(roots)
        schema = ", ".join(f"{name} {kind}" for name, kind in roots[0].fields)
        store, nodes, handed = self.store.ref, self.store.nodes, self.handed
        if not feeds:
            spread = not self.single

            def read(partition: int) -> Iterator[pa.RecordBatch]:
                return program.read(linked, store, [partition] if spread else range(nodes), handed)

            return frame(self.spark, nodes if spread else 1, read, schema)

        def task(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
            return program.run(batches, linked, store, nodes, handed)

        frames = [f.operator for f in feeds if isinstance(f.operator, DataFrame)]
        return self.tagged(frames, [f.fields for f in feeds]).mapInArrow(task, schema)


def set_assignment(spark: SparkSession, assignment: Assignment) -> AssignmentSource:
    """Give an assignment to the jobs that this thread starts next."""
    try:
        spark.sparkContext.setLocalProperty(PROPERTY, assignment.to_json())
    except PySparkException:  # Spark Connect has no context
        return AssignmentSource(assignment)
    return AssignmentSource()
