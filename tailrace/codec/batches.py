"""Reads Arrow batches from disk and validates them first.

Arrow checks the message header and that all buffers lie within the message, but it follows offsets and lengths inside
the buffers without a check: a damaged batch could read foreign memory. Full validation costs no more than the
checksum of a log entry.
"""

from __future__ import annotations

import pyarrow as pa

from tailrace.errors import Corrupt


def read(data: bytes | memoryview, schema: pa.Schema, where: str) -> pa.RecordBatch:
    """Decodes a batch of the given schema; `Corrupt` if the bytes are not such a batch."""
    try:
        batch = pa.ipc.read_record_batch(pa.py_buffer(data), schema)
        batch.validate(full=True)
    except (pa.ArrowException, OSError, EOFError, ValueError, MemoryError) as error:
        raise Corrupt(where=where, reason=f"not a valid Arrow batch ({str(error).splitlines()[0][:200]})") from None
    return batch
