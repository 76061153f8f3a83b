"""Reads Parquet files."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq

from tailrace.codec.convert import to_batch
from tailrace.codec.schema import TableDef
from tailrace.errors import BadFile, BadValue, NullKey
from tailrace.loading.files import Options, Piece, match_columns, to_bad_file

ROWS = 50_000


def read(path: Path, table: TableDef, options: Options) -> Iterator[Piece]:
    """The rows of a file. Its columns may be in any order; missing columns are NULL."""
    try:
        with pq.ParquetFile(path) as file:
            names = match_columns(path, table, file.schema_arrow.names, "")
            total, before = file.metadata.num_rows, 0
            for batch in file.iter_batches(ROWS):
                batch.validate(full=True)
                yield Piece(_convert(path, table, batch.rename_columns(names), before), (before + 1) / (total + 1))
                before += batch.num_rows
    except (pa.ArrowInvalid, pa.ArrowNotImplementedError, OSError) as error:
        raise BadFile(path=str(path), message=f"cannot be read as Parquet ({error})") from None


def _convert(path: Path, table: TableDef, batch: pa.RecordBatch, before: int) -> pa.RecordBatch:
    try:
        return to_batch(table, batch)
    except (BadValue, NullKey) as error:
        raise to_bad_file(path, error, "row", before + error.row) from None
