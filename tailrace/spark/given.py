"""The rows of a DataFrame that the user gives, as Arrow batches, one at a time."""

from __future__ import annotations

from collections.abc import Iterator

import pyarrow as pa
from pyspark.sql import DataFrame
from pyspark.sql.types import NullType

from tailrace import types
from tailrace.codec.convert import column_name, to_batch
from tailrace.codec.schema import TableDef
from tailrace.errors import DataError
from tailrace.spark.failures import FAILURES, reason
from tailrace.spark.type_names import type_name


def given_batches(frame: DataFrame, table: TableDef) -> Iterator[pa.RecordBatch]:
    """Converts a DataFrame to batches of the table's types. Names and types are checked before any Spark job runs.

    The driver holds one partition at a time, as the bytes of its batches; it never collects the whole frame.
    """
    for field in frame.schema:
        column_name(table, field.name)
        if not isinstance(field.dataType, NullType):  # the type of a column that holds only NULLs
            types.arrow(type_name(field.dataType))

    def pack(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        for batch in batches:
            sink = pa.BufferOutputStream()
            with pa.ipc.new_stream(sink, batch.schema) as writer:
                writer.write_batch(batch)
            yield pa.RecordBatch.from_arrays([pa.array([sink.getvalue().to_pybytes()], pa.binary())], ["batch"])

    first = 1
    try:
        for (packed,) in frame.mapInArrow(pack, "batch binary").toLocalIterator():
            for batch in pa.ipc.open_stream(packed):
                yield to_batch(table, batch, first=first)
                first += batch.num_rows
    except FAILURES as error:
        raise DataError(message=f"Spark cannot compute the rows: {reason(error)}; nothing was written") from error
