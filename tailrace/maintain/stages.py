"""Putting deltas where their shards are, and running stages there."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import reduce

import pyarrow as pa
from pyspark.sql import DataFrame
from pyspark.sql import functions as F  # noqa: N812

from tailrace import types
from tailrace.delta import SHARD
from tailrace.maintain import stage
from tailrace.maintain.stage import Rule
from tailrace.source.assignment import Handed

HASH_OF_NOTHING = 42  # Spark's hash of no columns is its seed


@dataclass(frozen=True)
class Stages:
    """Stages of one job. `tasks` of a stage divide the shards among them; with one task nothing is shuffled."""

    store: str
    shards: int
    tasks: int
    handed: Handed

    @property
    def single(self) -> bool:
        return self.tasks == 1

    def merge(self, frames: list[DataFrame]) -> DataFrame:
        if len(frames) == 1:
            return frames[0]
        union = reduce(DataFrame.union, frames)
        return union.coalesce(1) if self.single else union

    def shard(self, names: Sequence[str]) -> str:
        """SQL of the shard that a row belongs to by its values in some columns."""
        if not names:
            return f"CAST({HASH_OF_NOTHING % self.shards} AS INT) AS {SHARD}"
        return f"CAST(pmod(hash({', '.join(names)}), {self.shards}) AS INT) AS {SHARD}"

    def place(self, frame: DataFrame, names: Sequence[str], there: bool) -> DataFrame:
        """The frame with its shards, shuffled unless its rows are `there` already."""
        frame = frame.selectExpr("*", self.shard(names))
        return frame if there else self.shuffle(frame)

    def shuffle(self, frame: DataFrame) -> DataFrame:
        if self.single:
            return frame
        return frame.repartitionById(self.tasks, F.expr(f"pmod({SHARD}, {self.tasks})"))

    def run(self, frame: DataFrame, rule: Rule, schema: str | None = None) -> DataFrame:
        store, handed = self.store, self.handed

        def task(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
            return stage.run(batches, rule, store, handed)

        if schema is None:
            schema = ", ".join(f"{f.name} {types.name(f.type)}" for f in rule.output)
        return frame.mapInArrow(task, schema)
