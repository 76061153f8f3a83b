"""The oracle: Spark's answers to the original queries over Parquet copies of the tables."""

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

_TOLERANCE = 1e-9  # relative, for doubles; all other values must be equal
_SHOWN = 3


class Oracle:
    """A separate Spark session whose tables are Parquet files."""

    def __init__(self, spark: SparkSession, directory: Path, *, adaptive: bool = True) -> None:
        self._spark, self._directory, self._snapshots = session(spark), directory, 0
        self.settings = {
            "spark.sql.adaptive.enabled": str(adaptive).lower(),
            "spark.sql.shuffle.partitions": str(2 * spark.sparkContext.defaultParallelism),
        }
        for name, value in self.settings.items():
            self._spark.conf.set(name, value)

    def read(self, files: dict[str, Path]) -> None:
        """Answers over these files from now on."""
        for name, file in files.items():
            self._spark.read.parquet(str(file)).createOrReplaceTempView(name)

    def snapshot(self, db: tr.Database, names: Iterable[str] = TABLES) -> None:
        """Answers over the current contents of these tables; other tables keep their files."""
        self._snapshots += 1
        files = {name: self._directory / f"{name}-{self._snapshots}.parquet" for name in names}
        for name, file in files.items():
            table = db.table(name)
            with pq.ParquetWriter(file, table.schema) as writer:
                for batch in table.batches():
                    writer.write_batch(batch)
        self.read(files)

    def answer(self, query: Query) -> pa.Table:
        return self._spark.sql(query.sql).toArrow()


def difference(query: Query, view_rows: pa.Table, answer: pa.Table) -> str | None:
    """How a view differs from Spark's answer, in columns, rows (as multisets) or order. None if it does not.

    The order is compared only if ORDER BY is a total order.
    """
    if view_rows.column_names != answer.column_names:
        return f"{query.name}: columns {view_rows.column_names}, expected {answer.column_names}"
    ours, theirs = _rows(view_rows), _rows(answer)
    missing, extra = _unmatched(ours, theirs)
    if missing or extra:
        return (
            f"{query.name}: of {len(theirs)} rows, {len(missing)} are missing and {len(extra)} are extra, for example"
            f"\n  missing {missing[:_SHOWN]}\n  extra   {extra[:_SHOWN]}"
        )
    places = [answer.column_names.index(name) for name in query.order]
    keys = {tuple(row[p] for p in places) for row in theirs}
    if places and len(keys) == len(theirs):
        for number, (row, expected) in enumerate(zip(ours, theirs, strict=True)):
            if not _rows_match(row, expected):
                return f"{query.name}: row {number} in order is {row}, expected {expected}"
    return None


def _rows(table: pa.Table) -> list[tuple[Any, ...]]:
    return list(zip(*(column.to_pylist() for column in table.columns), strict=True))


def _unmatched(
    actual: list[tuple[Any, ...]], expected: list[tuple[Any, ...]]
) -> tuple[list[tuple[Any, ...]], list[tuple[Any, ...]]]:
    """Missing and extra rows, after equal rows and rows equal within the tolerance are paired."""
    ours, theirs = Counter(actual), Counter(expected)
    missing, extra = list((theirs - ours).elements()), list((ours - theirs).elements())
    for row in list(missing):
        partner = next((other for other in extra if _rows_match(row, other)), None)
        if partner is not None:
            missing.remove(row)
            extra.remove(partner)
    return missing, extra


def _rows_match(a: tuple[Any, ...], b: tuple[Any, ...]) -> bool:
    return all(
        math.isclose(x, y, rel_tol=_TOLERANCE) if isinstance(x, float) and isinstance(y, float) else x == y
        for x, y in zip(a, b, strict=True)
    )
