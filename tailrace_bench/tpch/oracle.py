"""Spark's own answers to the original texts, over Parquet files of what the tables hold, to compare views with."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
from pyspark.sql import SparkSession

import tailrace as tr
from tailrace.spark.session import session
from tailrace_bench.tpch.data import TABLES
from tailrace_bench.tpch.queries import Query

_TOLERANCE = 1e-9  # relative, of doubles; everything else is exact
_SHOWN = 3


class Oracle:
    """A Spark session of its own that sees the tables as files."""

    def __init__(self, spark: SparkSession, directory: Path, *, adaptive: bool = True) -> None:
        self._spark, self._directory, self._written = session(spark), directory, 0
        self.settings = {
            "spark.sql.adaptive.enabled": str(adaptive).lower(),
            "spark.sql.shuffle.partitions": str(2 * spark.sparkContext.defaultParallelism),
        }
        for name, value in self.settings.items():
            self._spark.conf.set(name, value)

    def read(self, files: dict[str, Path]) -> None:
        """Answer over these files from now on."""
        for name, file in files.items():
            self._spark.read.parquet(str(file)).createOrReplaceTempView(name)

    def snapshot(self, db: tr.Database, names: Iterable[str] = TABLES) -> None:
        """Answer over what these tables of the store hold now; the others stay as they were."""
        self._written += 1
        files = {name: self._directory / f"{name}-{self._written}.parquet" for name in names}
        for name, file in files.items():
            table = db.table(name)
            with pq.ParquetWriter(file, table.schema) as writer:
                for batch in table.batches():
                    writer.write_batch(batch)
        self.read(files)

    def answer(self, query: Query) -> pa.Table:
        return self._spark.sql(query.sql).toArrow()


def difference(query: Query, found: pa.Table, answer: pa.Table) -> str | None:
    """How a view differs from Spark's answer: in its columns, its rows as multisets, or their order; None if not.

    The order is compared where ORDER BY leaves no choice.
    """
    if found.column_names != answer.column_names:
        return f"{query.name}: columns {found.column_names}, not {answer.column_names}"
    ours, theirs = _rows(found), _rows(answer)
    missing, extra = _unmatched(ours, theirs)
    if missing or extra:
        return (
            f"{query.name}: of {len(theirs)} rows {len(missing)} are missing, {len(extra)} extra, for example"
            f"\n  missing {missing[:_SHOWN]}\n  extra   {extra[:_SHOWN]}"
        )
    places = [answer.column_names.index(name) for name in query.order]
    keys = {tuple(row[p] for p in places) for row in theirs}
    if places and len(keys) == len(theirs):
        for number, (row, expected) in enumerate(zip(ours, theirs, strict=True)):
            if not _alike(row, expected):
                return f"{query.name}: row {number} in order is {row}, not {expected}"
    return None


def _rows(table: pa.Table) -> list[tuple[Any, ...]]:
    return list(zip(*(column.to_pylist() for column in table.columns), strict=True))


def _unmatched(
    found: list[tuple[Any, ...]], expected: list[tuple[Any, ...]]
) -> tuple[list[tuple[Any, ...]], list[tuple[Any, ...]]]:
    """Rows of each side without a partner on the other."""
    ours, theirs = Counter(found), Counter(expected)
    missing, extra = list((theirs - ours).elements()), list((ours - theirs).elements())
    for row in list(missing):
        partner = next((other for other in extra if _alike(row, other)), None)
        if partner is not None:
            missing.remove(row)
            extra.remove(partner)
    return missing, extra


def _alike(a: tuple[Any, ...], b: tuple[Any, ...]) -> bool:
    return all(
        math.isclose(x, y, rel_tol=_TOLERANCE) if isinstance(x, float) and isinstance(y, float) else x == y
        for x, y in zip(a, b, strict=True)
    )
